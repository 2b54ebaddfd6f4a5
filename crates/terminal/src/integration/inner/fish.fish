# Marks of an inner fish, a statement a line: the lines are joined and typed as one.
function __steplatch_mark; builtin printf "\e]133;%s;k=KEY\a" $argv[1]; end
set -g __steplatch_n 0
function __steplatch_end; set -g __steplatch_n (builtin math $__steplatch_n + 1); __steplatch_mark "D;$argv[1];n=$__steplatch_n"; __steplatch_mark A; end
function __steplatch_began --on-event fish_preexec; __steplatch_mark C; end
function __steplatch_ended --on-event fish_postexec; __steplatch_end $status; end
function __steplatch_prompt --on-event fish_prompt; __steplatch_end $status; builtin printf "\e]7;file://%s\a" $PWD; end
function __steplatch_cancelled --on-event fish_cancel; __steplatch_end ""; end
builtin functions -c fish_prompt __steplatch_theirs
function fish_prompt; __steplatch_theirs; __steplatch_mark B; end
builtin bind -M paste \t "builtin commandline -i \t"
