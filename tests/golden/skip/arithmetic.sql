l + 1 > 5;
`max.l` > 4;

l - 1 = 5;
`min.l` <= 6 AND `max.l` >= 6;

10 - l < 3;
`max.l` > 7;

- l < 3;
`max.l` > -3;

l + 1 > 9223372036854775807;
`max.l` > 9223372036854775806;

l + i < 5;
(`min.l` + CAST(`min.i` AS LONG)) < 5;

x + 1.5D < 5.0D;
(`min.x` + 1.5D) < 5.0D;

x - 1.5D > 5.0D;
KEEP ALL;

m + 1 >= 2.5;
`max.m` >= 1.50BD;
