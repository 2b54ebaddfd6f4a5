# Shell integration of steplatch for bash: marks (OSC 133) around the prompt, the command line and its output, and a way
# to ask for variables that leaves no trace. bash reads this in place of ~/.bashrc, so that file comes first; a login
# shell has read its own files by now and comes here from PROMPT_COMMAND, with its first prompt.

if [ -n "${STEPLATCH_SHELL_WAY_IN-}" ]; then
  case $(declare -p PROMPT_COMMAND 2>/dev/null) in
    'declare -'*r*' PROMPT_COMMAND'*) ;;
    *)
      for __steplatch_entry in "${!PROMPT_COMMAND[@]}"; do
        PROMPT_COMMAND[__steplatch_entry]=${PROMPT_COMMAND[__steplatch_entry]//"$STEPLATCH_SHELL_WAY_IN"/:}
      done
      unset __steplatch_entry
      declare +x PROMPT_COMMAND
      ;;
  esac
elif [ -n "${__steplatch_key-}" ]; then
  # The way in of a login shell that could not be taken out again.
  return 0
elif [ -r ~/.bashrc ]; then
  . ~/.bashrc
fi

# Nobody traces what follows.
{ case $- in *x*) __steplatch_traced=1; set +x ;; esac; } 2>/dev/null

__steplatch_key=${STEPLATCH_SHELL_NONCE-}
__steplatch_files=${STEPLATCH_SHELL_EXCHANGE-}
unset STEPLATCH_SHELL_NONCE STEPLATCH_SHELL_EXCHANGE

if [ -n "$__steplatch_key" ]; then
  # Runs before every prompt, after all other hooks: they may set PS1 and PS0 anew each time. bash gives every hook the
  # exit code of the command, whatever the hooks before it did.
  __steplatch_prompt() {
    local status=$?
    [ -n "${__steplatch_status-}" ] && status=$__steplatch_status
    printf '\e]133;D;%s;k=%s\a\e]133;A;k=%s\a' "$status" "$__steplatch_key" "$__steplatch_key" >/dev/tty
    __steplatch_marks ''
  }
  # Puts the marks at the end of the prompts, where they are not; $1 goes to the front of PS1.
  __steplatch_marks() {
    case ${PS1-} in
      *"133;B;k=$__steplatch_key"*) ;;
      *) PS1="$1${PS1-}\\[\\e]133;B;k=$__steplatch_key\\a\\]" ;;
    esac
    case ${PS0-} in
      *"133;C;k=$__steplatch_key"*) ;;
      *) PS0="${PS0-}${__steplatch_again-}\\e]133;C;k=$__steplatch_key\\a" ;;
    esac
    case ${PS2-} in
      *"133;P;k=s;k=$__steplatch_key"*) ;;
      *) PS2="${PS2-}\\[\\e]133;P;k=s;k=$__steplatch_key\\a\\]" ;;
    esac
  }
  # What set -x and a DEBUG trap print for the hook goes nowhere: the hook is nobody's command.
  __steplatch_hook='{ __steplatch_prompt; } >/dev/null 2>&1'
  __steplatch_attributes=
  if ((BASH_VERSINFO[0] >= 5)); then
    # Without a fork, which takes longer than all the rest. Under set -u a name that nobody declared is an error.
    case $- in
      *u*) set +u && __steplatch_attributes=${PROMPT_COMMAND@a} && set -u ;;
      *) __steplatch_attributes=${PROMPT_COMMAND@a} ;;
    esac
  else
    __steplatch_attributes=$(declare -p PROMPT_COMMAND 2>/dev/null)
    __steplatch_attributes=${__steplatch_attributes#declare -}
    __steplatch_attributes=${__steplatch_attributes%% *}
  fi
  case $__steplatch_attributes in
    *r*)
      # It can not be changed, so the prompt itself says what the hook would.
      __steplatch_marks "\\[\\e]133;D;\$?;k=$__steplatch_key\\a\\e]133;A;k=$__steplatch_key\\a\\]"
      ;;
    *)
      if ((BASH_VERSINFO[0] > 5 || (BASH_VERSINFO[0] == 5 && BASH_VERSINFO[1] >= 1))); then
        # At the far end of the list: who sets PROMPT_COMMAND as if it were one command replaces its first entry.
        PROMPT_COMMAND[999]=$__steplatch_hook
        # Where a command has taken the hook away, the next command puts it back: this expands to nothing, and sets it.
        __steplatch_again='${__steplatch_hook#"${PROMPT_COMMAND[999]:=$__steplatch_hook}"}'
      else
        PROMPT_COMMAND="__steplatch_status=\$?
${PROMPT_COMMAND-}
$__steplatch_hook"
      fi
      # This prompt's hooks are running already.
      [ -n "${STEPLATCH_SHELL_WAY_IN-}" ] && __steplatch_prompt
      ;;
  esac
  unset __steplatch_attributes
  unset STEPLATCH_SHELL_WAY_IN

  # Does what the request file says, into the answer file, and says that it is done. The last argument of the caller's
  # last command comes and goes as $1, so that $_ stays what it was.
  __steplatch_exchange() {
    \local - __steplatch_set=$-
    \set +uxeT
    if [ -r "$__steplatch_files.request" ]; then
      \builtin . "$__steplatch_files.request" >|"$__steplatch_files.answer" 2>/dev/null
    fi
  }
  # A signal would have to wait until a line is entered; a key that no keyboard has does not.
  if ((BASH_VERSINFO[0] > 4 || (BASH_VERSINFO[0] == 4 && BASH_VERSINFO[1] >= 4))); then
    for __steplatch_keymap in emacs vi-insert vi-command; do
      # A function does not see all traps, so they are listed before it, if they are asked for. A trap that runs meanwhile may
      # set the line that is edited: it becomes what it was, and the last command says nothing that counts where it did not.
      bind -m "$__steplatch_keymap" -x '"\e\C-_s": { __steplatch_last=$_ __steplatch_line=${READLINE_LINE-} __steplatch_point=${READLINE_POINT-}; [[ ! -r $__steplatch_files.traps ]] || \builtin trap -p >|"$__steplatch_files.traps"; __steplatch_exchange "$__steplatch_last"; READLINE_LINE=$__steplatch_line READLINE_POINT=$__steplatch_point; \builtin printf "\\e]133;V;k=%s%s\\a%.0s" "$__steplatch_key" "${READLINE_LINE:+!}" "$__steplatch_last" >/dev/tty; } >/dev/null 2>&1' 2>/dev/null
    done
    unset __steplatch_keymap
  fi
fi

if [ -n "${__steplatch_traced-}" ]; then
  unset __steplatch_traced
  set -x
fi
