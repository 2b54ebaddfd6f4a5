# Marks of an inner bash (4.4 and later), a statement a line: the lines are joined and typed as one. No line may contain
# an exclamation mark, which bash would expand.
set +H
__steplatch_theirs=$PROMPT_COMMAND
__steplatch_forget() { local n; while n=$(HISTTIMEFORMAT= history 1); case $n in *KEY*) ;; *) false;; esac; do n=${n#"${n%%[0-9]*}"}; history -d "${n%%[^0-9]*}" || break; done; }
__steplatch_prompt() { local s=$?; printf "\033]133;D;%s;k=KEY;n=%s\007" $s $((__steplatch_n+=1)); eval "$__steplatch_theirs"; printf "\033]133;A;k=KEY\007\033]7;file://%s\007" "$PWD"; case $PS1 in *"B;k=KEY"*) ;; *) PS1="$PS1\[\e]133;B;k=KEY\a\]"; PS0="$PS0\e]133;C;k=KEY\a"; PS2="\[\e]133;P;k=s;k=KEY\a\]$PS2";; esac; return $s; }
PROMPT_COMMAND=__steplatch_prompt
__steplatch_forget
