# Shell integration of steplatch for bash: marks (OSC 133) around the prompt, the command line and its output.
# bash reads this in place of ~/.bashrc, so that file comes first.

if [ -r ~/.bashrc ]; then
  . ~/.bashrc
fi

__steplatch_key=$STEPLATCH_SHELL_NONCE
unset STEPLATCH_SHELL_NONCE

if [ -n "$__steplatch_key" ]; then
  # Runs before every prompt, after all other hooks: they may set PS1 and PS0 anew each time.
  __steplatch_prompt() {
    printf '\e]133;D;%s;k=%s\a\e]133;A;k=%s\a' "$__steplatch_status" "$__steplatch_key" "$__steplatch_key"
    case $PS1 in
      *"133;B;k=$__steplatch_key"*) ;;
      *) PS1="$PS1\\[\\e]133;B;k=$__steplatch_key\\a\\]" ;;
    esac
    case $PS0 in
      *"133;C;k=$__steplatch_key"*) ;;
      *) PS0="$PS0\\e]133;C;k=$__steplatch_key\\a" ;;
    esac
  }
  # The first hook sees the exit code of the command, the last one has the last word on the prompt.
  if ((BASH_VERSINFO[0] > 5 || (BASH_VERSINFO[0] == 5 && BASH_VERSINFO[1] >= 1))); then
    PROMPT_COMMAND=('__steplatch_status=$?' "${PROMPT_COMMAND[@]}" '__steplatch_prompt')
  else
    PROMPT_COMMAND="__steplatch_status=\$?
$PROMPT_COMMAND
__steplatch_prompt"
  fi
fi
