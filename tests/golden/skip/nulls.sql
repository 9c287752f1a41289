l IS NULL;
`null_count.l` != 0;

l IS NOT NULL;
`null_count.l` != `num_records`;

(l > 5) IS NULL;
`null_count.l` != 0;

(l > 5) IS NOT NULL;
`null_count.l` != `num_records`;

(l > 5 AND i < 3) IS NULL;
(`null_count.l` != 0 OR `null_count.i` != 0) AND (`max.l` > 5 OR `null_count.l` != 0) AND (`min.i`
< 3 OR `null_count.i` != 0);

(l > 5 OR i < 3) IS NULL;
(`null_count.l` != 0 OR `null_count.i` != 0) AND (`min.l` <= 5 OR `null_count.l` != 0) AND
(`max.i` >= 3 OR `null_count.i` != 0);

(NOT (l > 5)) IS NULL;
`null_count.l` != 0;

(s LIKE 'a%') IS NULL;
`null_count.s` != 0;

(l <=> 5) IS NULL;
FALSE;

st IS NULL;
KEEP ALL;
