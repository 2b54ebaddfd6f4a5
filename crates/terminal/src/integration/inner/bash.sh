# Marks of an inner bash (4.4 and later), a statement a line: the lines are joined and typed as one, in quotes, because bash
# expands aliases where it reads a line; `builtin` passes functions over. No line may contain an exclamation mark, which
# bash would expand.
builtin set +H
__steplatch_theirs=${PROMPT_COMMAND-} __steplatch_n=0
__steplatch_forget() { builtin local __steplatch_h; while __steplatch_h=$(HISTTIMEFORMAT= \builtin history 1); [[ $__steplatch_h == *KEY* ]]; do __steplatch_h=${__steplatch_h#"${__steplatch_h%%[0-9]*}"}; builtin history -d "${__steplatch_h%%[^0-9]*}" || builtin break; done; }
__steplatch_prompt() { builtin local __steplatch_s="$?"; builtin printf "\033]133;D;%s;k=KEY;n=%s\007" "$__steplatch_s" $((__steplatch_n+=1)); builtin eval "$__steplatch_theirs"; builtin printf "\033]133;A;k=KEY\007\033]7;file://%s\007" "$PWD"; case ${PS1-} in *"B;k=KEY"*) ;; *) PS1="${PS1-}\[\e]133;B;k=KEY\a\]"; PS0="${PS0-}\e]133;C;k=KEY;n=\$__steplatch_n\a"; PS2="\[\e]133;P;k=s;k=KEY\a\]${PS2-}";; esac; builtin return "$__steplatch_s"; }
PROMPT_COMMAND="__steplatch_prompt || builtin :"
__steplatch_forget
case :$__steplatch_shopts: in *:expand_aliases:*) builtin shopt -s expand_aliases;; esac
builtin unset __steplatch_shopts
