x < 1.5D;
`min.x` < 1.5D;

x > 1.5D;
KEEP ALL;

x >= 1.5D;
KEEP ALL;

x = 1.5D;
`min.x` <= 1.5D AND `max.x` >= 1.5D;

x != 1.5D;
KEEP ALL;

x = CAST('NaN' AS DOUBLE);
KEEP ALL;

x > 1.0D AND x < 2.0D;
`max.x` > 1.0D AND `min.x` < 2.0D;

x BETWEEN 1.0D AND 2.0D;
`max.x` >= 1.0D AND `min.x` <= 2.0D;

x > 1.0D AND f < 2.0F;
`min.f` < 2.0F;

x < f;
KEEP ALL;

NOT (x < 1.5D);
KEEP ALL;
