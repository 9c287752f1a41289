l = 5;
`min.l` <= 5 AND `max.l` >= 5;

5 = l;
`min.l` <= 5 AND `max.l` >= 5;

l != 5;
`min.l` != 5 OR `max.l` != 5;

l < 5;
`min.l` < 5;

l <= 5;
`min.l` <= 5;

l > 5;
`max.l` > 5;

l >= 5;
`max.l` >= 5;

NOT (l < 5);
`max.l` >= 5;

NOT (l = 5);
`min.l` != 5 OR `max.l` != 5;

l <=> 5;
`min.l` <= 5 AND `max.l` >= 5;

l <=> NULL;
`null_count.l` != 0;

NOT (l <=> 5);
`min.l` != 5 OR `max.l` != 5 OR `null_count.l` != 0;

l = NULL;
FALSE;

st.k > 5;
`max.st.k` > 5;

o = TRUE;
KEEP ALL;

o;
KEEP ALL;

NOT o;
KEEP ALL;

z = X'00';
KEEP ALL;
