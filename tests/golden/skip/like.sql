s LIKE 'ab%';
`max.s` >= 'ab' AND `min.s` < 'ac';

s LIKE 'a%b';
`max.s` >= 'a' AND `min.s` < 'b' AND (`min.s` != `max.s` OR length(`min.s`) >= 32 OR `min.s` LIKE
'a%b');

s LIKE 'a_';
`max.s` >= 'a' AND `min.s` < 'b' AND (`min.s` != `max.s` OR length(`min.s`) >= 32 OR `min.s` LIKE
'a_');

s LIKE 'ab';
`min.s` <= 'ab' AND `max.s` >= 'ab';

s LIKE '%';
KEEP ALL;

s LIKE '%b';
`min.s` != `max.s` OR length(`min.s`) >= 32 OR `min.s` LIKE '%b';

s LIKE 'a!%%' ESCAPE '!';
`max.s` >= 'a%' AND `min.s` < 'a&';

s NOT LIKE 'ab%';
`min.s` < 'ab' OR `max.s` >= 'ac';

s NOT LIKE 'ab';
`min.s` != 'ab' OR `max.s` != 'ab';

s NOT LIKE '%';
FALSE;

s NOT LIKE 'a%b';
`min.s` != `max.s` OR length(`min.s`) >= 32 OR NOT (`min.s` LIKE 'a%b');

s != 'abcdefghijklmnopqrstuvwxyz0123456789';
`min.s` != `max.s` OR length(`min.s`) >= 32 OR `min.s` != 'abcdefghijklmnopqrstuvwxyz0123456789';
