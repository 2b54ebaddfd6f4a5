# Marks of an inner fish, a statement a line: the lines are joined and typed as one.
function __steplatch_mark; builtin printf "\e]133;%s;k=KEY\a" $argv[1]; end
function __steplatch_began --on-event fish_preexec; __steplatch_mark C; end
function __steplatch_ended --on-event fish_postexec; set -l code $status; __steplatch_mark "D;$code"; __steplatch_mark A; end
function __steplatch_prompt --on-event fish_prompt; set -l code $status; __steplatch_mark "D;$code"; __steplatch_mark A; builtin printf "\e]7;file://%s\a" $PWD; end
function __steplatch_cancelled --on-event fish_cancel; __steplatch_mark D; __steplatch_mark A; end
functions -c fish_prompt __steplatch_theirs
function fish_prompt; __steplatch_theirs; __steplatch_mark B; end
