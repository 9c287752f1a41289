l < i;
`min.l` < CAST(`max.i` AS LONG);

l = i;
`min.l` <= CAST(`max.i` AS LONG) AND CAST(`min.i` AS LONG) <= `max.l`;

l != i;
`min.l` != CAST(`max.i` AS LONG) OR `max.l` != CAST(`min.i` AS LONG);

s < s2;
`min.s` < `max.s2`;

s != s2;
KEEP ALL;

d < t;
CAST(`min.d` AS TIMESTAMP) < `max.t`;

l >= m;
CAST(`min.m` AS DECIMAL(22,2)) <= CAST(`max.l` AS DECIMAL(22,2));

p < l;
CAST(`partition.p` AS LONG) < `max.l`;

l <=> i;
(`min.l` <= CAST(`max.i` AS LONG) AND CAST(`min.i` AS LONG) <= `max.l`) OR (`null_count.l` != 0
AND `null_count.i` != 0);
