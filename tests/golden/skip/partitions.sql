p = 5;
(`partition.p` = 5) IS TRUE;

p + 1 = 5;
(`partition.p` = 4) IS TRUE;

q LIKE '%x' OR p IN (1, 2);
(`partition.q` LIKE '%x' OR `partition.p` IN (1, 2)) IS TRUE;

NOT (p = 5);
(NOT (`partition.p` = 5)) IS TRUE;

p = 5 AND l > 1;
(`partition.p` = 5) IS TRUE AND `max.l` > 1;

p = 5 OR l > 1;
(`partition.p` = 5) IS TRUE OR `max.l` > 1;

p IS NULL;
(`partition.p` IS NULL) IS TRUE;

q NOT LIKE 'a%';
(NOT (`partition.q` LIKE 'a%')) IS TRUE;

(p > 5) IS NULL;
((`partition.p` > 5) IS NULL) IS TRUE;

p = '5';
(`partition.p` = 5) IS TRUE;
