date(t) = DATE '2026-01-01';
CAST(`min.t` AS DATE) <= DATE '2026-01-01' AND CAST(`max.t` AS DATE) >= DATE '2026-01-01';

year(d) = 2026;
year(`min.d`) <= 2026 AND year(`max.d`) >= 2026;

month(d) = 2;
`min.d` != `max.d` OR month(`min.d`) = 2;

trunc(d, 'MM') = DATE '2026-01-01';
trunc(`min.d`, 'MM') <= DATE '2026-01-01' AND trunc(`max.d`, 'MM') >= DATE '2026-01-01';

date_trunc('hour', t) >= TIMESTAMP '2026-01-01 00:00:00Z';
date_trunc('hour', `max.t`) >= TIMESTAMP '2026-01-01 00:00:00.000000Z';

date_format(d, 'yyyy-MM') = '2026-01';
date_format(`min.d`, 'yyyy-MM') <= '2026-01' AND date_format(`max.d`, 'yyyy-MM') >= '2026-01';

date_format(d, 'dd') = '01';
`min.d` != `max.d` OR date_format(`min.d`, 'dd') = '01';

substring(s, 1, 2) = 'ab';
substring(`min.s`, 1, 2) <= 'ab' AND substring(`max.s`, 1, 2) >= 'ab';

substring(s, 2, 2) = 'ab';
`min.s` != `max.s` OR length(`min.s`) >= 32 OR substring(`min.s`, 2, 2) = 'ab';

CAST(i AS DOUBLE) > 1.5D;
CAST(`max.i` AS DOUBLE) > 1.5D;

CAST(d AS TIMESTAMP) < TIMESTAMP '2026-01-01 00:00:00Z';
CAST(`min.d` AS TIMESTAMP) < TIMESTAMP '2026-01-01 00:00:00.000000Z';

CAST(s AS INT) = 5;
`min.s` != `max.s` OR length(`min.s`) >= 32 OR CAST(`min.s` AS INTEGER) = 5;

hour(t) = 3;
KEEP ALL;
