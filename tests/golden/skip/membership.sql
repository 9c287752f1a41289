l IN (3, 1, 2);
any_within(`min.l`, `max.l`, 1, 2, 3);

l IN (1);
`min.l` <= 1 AND `max.l` >= 1;

l IN (1, NULL);
`min.l` <= 1 AND `max.l` >= 1;

l IN (NULL);
FALSE;

l NOT IN (1, 2);
`min.l` != `max.l` OR NOT (`min.l` IN (1, 2));

l NOT IN (1, NULL);
FALSE;

x IN (1.0D, 2.0D);
any_within(`min.x`, `max.x`, 1.0D, 2.0D);

x IN (1.0D, CAST('NaN' AS DOUBLE));
KEEP ALL;

b IN (1, 1000);
`min.b` <= 1 AND `max.b` >= 1;

b IN (1000);
FALSE;

s IN ('b', 'a');
any_within(`min.s`, `max.s`, 'a', 'b');

t IN (TIMESTAMP '2026-01-01 00:00:00Z');
`min.t` <= TIMESTAMP '2026-01-01 00:00:00.000000Z' AND `max.t` >= TIMESTAMP '2026-01-01
00:00:00.000000Z';
