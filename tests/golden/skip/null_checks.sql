l > 5;
`max.l` > 5 AND `null_count.l` != `num_records`;

l IS NULL;
`null_count.l` != 0;

l < i;
`min.l` < CAST(`max.i` AS LONG) AND `null_count.l` != `num_records` AND `null_count.i` !=
`num_records`;

l NOT IN (1, 2);
(`min.l` != `max.l` OR NOT (`min.l` IN (1, 2))) AND `null_count.l` != `num_records`;

s LIKE 'a%';
`null_count.s` != `num_records` AND `max.s` >= 'a' AND `min.s` < 'b';
