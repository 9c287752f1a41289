l > 1 AND s = 'a';
`max.l` > 1 AND `min.s` <= 'a' AND `max.s` >= 'a';

l > 1 AND z = X'00';
`max.l` > 1;

l > 1 OR z = X'00';
KEEP ALL;

l > 1 OR i < 3;
`max.l` > 1 OR `min.i` < 3;

NOT (l > 1 AND i < 3);
`min.l` <= 1 OR `max.i` >= 3;

NOT (l > 1 OR i < 3);
`min.l` <= 1 AND `max.i` >= 3;

TRUE;
KEEP ALL;

FALSE;
FALSE;

NULL;
FALSE;

l > 1 AND FALSE;
FALSE;

l > 1 OR TRUE;
KEEP ALL;

(l > 1) IS TRUE;
`max.l` > 1;

(l > 1) IS NOT TRUE;
`min.l` <= 1 OR `null_count.l` != 0;
