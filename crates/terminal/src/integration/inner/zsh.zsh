# Marks of an inner zsh, a statement a line: the lines are joined and typed as one, in quotes, as for bash.
builtin unsetopt prompt_sp bang_hist correct correct_all
__steplatch_n=0; typeset -ga precmd_functions preexec_functions
builtin setopt hist_ignore_space interactive_comments
__steplatch_end() { local __steplatch_c=$?; builtin printf "\033]133;E;k=KEY\007"; builtin return $__steplatch_c; }
__steplatch_prompt() { __steplatch_code=$?; builtin printf "\033]133;D;%s;k=KEY;n=%s\007\033]133;A;k=KEY\007%%%*s\r \r\033]7;file://%s\007" $__steplatch_code $((++__steplatch_n)) $((COLUMNS-1)) "" "$PWD"; [[ " ${preexec_functions[*]-} " == *" __steplatch_began "* ]] || preexec_functions+=(__steplatch_began); case $PS1 in *B\;k=KEY*) ;; *) PS1="$PS1%{$(\builtin \printf "\033]133;B;k=KEY\007")%}" PS2="%{$(\builtin \printf "\033]133;P;k=s;k=KEY\007")%}$PS2";; esac; builtin return $__steplatch_code; }
__steplatch_began() { builtin printf "\033]133;C;k=KEY\007"; }
__steplatch_theirs() { builtin :; }
(( ${+functions[precmd]} )) && functions[__steplatch_theirs]=$functions[precmd] && builtin unfunction precmd
precmd_functions=(__steplatch_end __steplatch_theirs $precmd_functions __steplatch_prompt)
preexec_functions+=(__steplatch_began)
((__steplatch_aliased)) || builtin setopt aliases
