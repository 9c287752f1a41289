n < TIMESTAMP_NTZ '2026-02-03 04:00:00';
`min.n` < TIMESTAMP_NTZ '2026-02-03 04:00:00.000000' AND `partition.g_wall` <= DATE '2026-02-03'
AND `partition.g_year` <= 2026 AND (`partition.g_year` < 2026 OR (`partition.g_year` = 2026 AND
`partition.g_month` <= 2));

n = TIMESTAMP_NTZ '2026-02-03 04:00:00';
`min.n` <= TIMESTAMP_NTZ '2026-02-03 04:00:00.000000' AND `max.n` >= TIMESTAMP_NTZ '2026-02-03
04:00:00.000000' AND `partition.g_wall` = DATE '2026-02-03' AND `partition.g_year` = 2026 AND
`partition.g_month` = 2;

n >= '2026-02-03' OR n IS NULL;
(`max.n` >= TIMESTAMP_NTZ '2026-02-03 00:00:00.000000' AND `partition.g_wall` >= DATE '2026-02-03'
AND `partition.g_year` >= 2026 AND (`partition.g_year` > 2026 OR (`partition.g_year` = 2026 AND
`partition.g_month` >= 2))) OR (`null_count.n` != 0 AND `partition.g_wall` IS NULL AND
`partition.g_year` IS NULL AND `partition.g_month` IS NULL);

t = TIMESTAMP '2026-02-03 04:00:00Z';
`min.t` <= TIMESTAMP '2026-02-03 04:00:00.000000Z' AND `max.t` >= TIMESTAMP '2026-02-03
04:00:00.000000Z' AND `partition.g_day` <= DATE '2026-02-04' AND `partition.g_day` >= DATE
'2026-02-02';

t < TIMESTAMP '2026-02-03 04:00:00Z';
`min.t` < TIMESTAMP '2026-02-03 04:00:00.000000Z' AND `partition.g_day` <= DATE '2026-02-04';

s = 'abcdef';
`min.s` <= 'abcdef' AND `max.s` >= 'abcdef' AND `partition.g_text` = 'abc';

s < 'abcdef';
`min.s` < 'abcdef' AND `partition.g_text` <= 'abc';

s IN ('abcdef', 'xyz1');
any_within(`min.s`, `max.s`, 'abcdef', 'xyz1') AND (`partition.g_text` = 'abc' OR
`partition.g_text` = 'xyz');

NOT (s >= 'abcdef');
`min.s` < 'abcdef' AND `partition.g_text` <= 'abc';

s LIKE 'ab%';
`max.s` >= 'ab' AND `min.s` < 'ac';

s != 'abcdef';
`min.s` != 'abcdef' OR `max.s` != 'abcdef';
