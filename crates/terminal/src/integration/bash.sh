# Shell integration of steplatch for bash: marks (OSC 133) around the prompt, the command line and its output.
# bash reads this in place of ~/.bashrc, so that file comes first.

if [ -r ~/.bashrc ]; then
  . ~/.bashrc
fi

__steplatch_key=${STEPLATCH_SHELL_NONCE-}
unset STEPLATCH_SHELL_NONCE

if [ -n "$__steplatch_key" ]; then
  # Runs before every prompt, after all other hooks: they may set PS1 and PS0 anew each time. bash gives every hook the
  # exit code of the command, whatever the hooks before it did.
  __steplatch_prompt() {
    local status=$?
    [ -n "${__steplatch_status-}" ] && status=$__steplatch_status
    printf '\e]133;D;%s;k=%s\a\e]133;A;k=%s\a' "$status" "$__steplatch_key" "$__steplatch_key"
    __steplatch_marks ''
  }
  # Puts the marks at the end of PS1 and PS0, where they are not; $1 goes to the front of PS1.
  __steplatch_marks() {
    case ${PS1-} in
      *"133;B;k=$__steplatch_key"*) ;;
      *) PS1="$1${PS1-}\\[\\e]133;B;k=$__steplatch_key\\a\\]" ;;
    esac
    case ${PS0-} in
      *"133;C;k=$__steplatch_key"*) ;;
      *) PS0="${PS0-}\\e]133;C;k=$__steplatch_key\\a" ;;
    esac
  }
  case $(declare -p PROMPT_COMMAND 2>/dev/null) in
    'declare -'*r*' PROMPT_COMMAND'*)
      # It can not be changed, so the prompt itself says what the hook would.
      __steplatch_marks "\\[\\e]133;D;\$?;k=$__steplatch_key\\a\\e]133;A;k=$__steplatch_key\\a\\]"
      ;;
    *)
      if ((BASH_VERSINFO[0] > 5 || (BASH_VERSINFO[0] == 5 && BASH_VERSINFO[1] >= 1))); then
        # At the far end of the list: who sets PROMPT_COMMAND as if it were one command replaces its first entry.
        PROMPT_COMMAND[999]=__steplatch_prompt
      else
        PROMPT_COMMAND="__steplatch_status=\$?
${PROMPT_COMMAND-}
__steplatch_prompt"
      fi
      ;;
  esac
fi
