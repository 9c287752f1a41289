b < 1000;
`null_count.b` != `num_records`;

b < -1000;
FALSE;

b = 1000;
FALSE;

b != 1000;
`null_count.b` != `num_records`;

i < 10.5;
`min.i` < 11;

i >= 10.5;
`max.i` >= 11;

i = 10.5;
FALSE;

i > 1e20;
FALSE;

i < CAST('NaN' AS DOUBLE);
`null_count.i` != `num_records`;

m = 1.005;
FALSE;

m < 1.005;
`min.m` < 1.01BD;

d = '2026-01-01';
`min.d` <= DATE '2026-01-01' AND `max.d` >= DATE '2026-01-01';

d < TIMESTAMP_NTZ '2026-01-01 12:00:00';
`min.d` < DATE '2026-01-02';

t >= '2026-01-01';
`max.t` >= TIMESTAMP '2026-01-01 00:00:00.000000Z';

l = '17';
`min.l` <= 17 AND `max.l` >= 17;

f = 0.5;
`min.f` <= 0.5F AND `max.f` >= 0.5F;

f = 0.1;
CAST(`min.f` AS DOUBLE) <= 0.1D AND CAST(`max.f` AS DOUBLE) >= 0.1D;
