# Marks of an inner bash (4.4 and later), a statement a line: the lines are joined and typed as one, in quotes, because bash
# expands aliases where it reads a line; `builtin` passes functions over. No line may contain an exclamation mark, which
# bash would expand.
builtin set +H
__steplatch_theirs=$PROMPT_COMMAND
__steplatch_forget() { builtin local n; while n=$(HISTTIMEFORMAT= \builtin history 1); [[ $n == *KEY* ]]; do n=${n#"${n%%[0-9]*}"}; builtin history -d "${n%%[^0-9]*}" || builtin break; done; }
__steplatch_prompt() { builtin local s="$?"; builtin printf "\033]133;D;%s;k=KEY;n=%s\007" $s $((__steplatch_n+=1)); builtin eval "$__steplatch_theirs"; builtin printf "\033]133;A;k=KEY\007\033]7;file://%s\007" "$PWD"; case $PS1 in *"B;k=KEY"*) ;; *) PS1="$PS1\[\e]133;B;k=KEY\a\]"; PS0="$PS0\e]133;C;k=KEY\a"; PS2="\[\e]133;P;k=s;k=KEY\a\]$PS2";; esac; builtin return "$s"; }
PROMPT_COMMAND=__steplatch_prompt
__steplatch_forget
case :$__steplatch_shopts: in *:expand_aliases:*) builtin shopt -s expand_aliases;; esac
builtin unset __steplatch_shopts
