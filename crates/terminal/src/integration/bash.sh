# Shell integration of steplatch for bash: marks (OSC 133) around the prompt, the command line and its output, and a way
# to ask for variables that leaves no trace. bash reads this in place of ~/.bashrc, so that file comes first. A login
# shell is started in POSIX mode, in which it reads only the file that $ENV names: this one, which reads the login files.
# One that a login file starts in its place comes here from PROMPT_COMMAND, with its first prompt.
#
# No word below is the user's. bash expands aliases where it reads a command, not where it runs it, so they are out of use
# while it reads this file: from here, which a hook of PROMPT_COMMAND may have it read, and again behind the user's files.
# A group is read at once, before it puts them into use. `builtin` passes functions over, and `[[` is not a command. A text that is read
# later has a backslash before its words. A function named `builtin` is put away while this file works, and put back after it.

{ __steplatch_shopts=$BASHOPTS; \builtin shopt -u expand_aliases; } 2>/dev/null
{
  # Puts a function named `builtin` away. What declares a variable local in a function of its own leaves none here. In POSIX mode,
  # which this variable turns on, `unset` is found before functions.
  __steplatch_put_away() {
    builtin local __steplatch_real=1
    if [[ -z ${__steplatch_real-} ]]; then
      __steplatch_function=$(POSIXLY_CORRECT=1; \unset -f command; \command declare -f builtin)
      __steplatch_modes=:$SHELLOPTS:$BASHOPTS:
      case $__steplatch_modes in
        *:posix:*) \unset -f builtin ;;
        *) POSIXLY_CORRECT=1; \unset -f builtin; \unset POSIXLY_CORRECT ;;
      esac
      builtin local __steplatch_real=1
      if [[ -n ${__steplatch_real-} ]]; then
        # Earlier versions leave some of these as that mode has set them.
        for __steplatch_mode in interactive_comments expand_aliases inherit_errexit sourcepath shift_verbose; do
          case $__steplatch_modes in
            *":$__steplatch_mode:"*) builtin shopt -s "$__steplatch_mode" ;;
            *) builtin shopt -u "$__steplatch_mode" ;;
          esac
        done
        builtin unset __steplatch_modes __steplatch_mode
      else
        # It is read-only.
        __steplatch_function= __steplatch_stuck=1
      fi
    fi
  } >/dev/null 2>&1
  __steplatch_put_back() {
    if [[ -n $__steplatch_function ]]; then
      __steplatch_restored=$__steplatch_function __steplatch_function=
      builtin eval "$__steplatch_restored"
    fi
  }
  __steplatch_function=
  __steplatch_put_away

  if [[ :$__steplatch_shopts: == *:expand_aliases:* ]]; then builtin shopt -s expand_aliases; fi

  if [[ -n ${STEPLATCH_SHELL_LOGIN-} ]]; then
    builtin unset STEPLATCH_SHELL_LOGIN ENV
    builtin set +o posix
    builtin shopt -u inherit_errexit 2>/dev/null
    [[ -z ${STEPLATCH_SHELL_ENV+x} ]] || builtin export ENV="$STEPLATCH_SHELL_ENV"
    builtin unset STEPLATCH_SHELL_ENV
    # bash names another file for its history in POSIX mode.
    case $(\builtin declare -p HISTFILE 2>/dev/null) in
      "declare -- HISTFILE=\"$HOME/.sh_history\"") HISTFILE=$HOME/.bash_history ;;
    esac
    if [[ -r /etc/profile ]]; then builtin . /etc/profile; fi
    if [[ -r ~/.bash_profile ]]; then
      builtin . ~/.bash_profile
    elif [[ -r ~/.bash_login ]]; then
      builtin . ~/.bash_login
    elif [[ -r ~/.profile ]]; then
      builtin . ~/.profile
    fi
    __steplatch_before_hooks=1
    __steplatch_put_away
  fi

  if [[ -n ${STEPLATCH_SHELL_WAY_IN-} ]]; then
    case $(\builtin declare -p PROMPT_COMMAND 2>/dev/null) in
      'declare -'*r*' PROMPT_COMMAND'*) ;;
      *)
        for __steplatch_entry in "${!PROMPT_COMMAND[@]}"; do
          PROMPT_COMMAND[__steplatch_entry]=${PROMPT_COMMAND[__steplatch_entry]//"$STEPLATCH_SHELL_WAY_IN"/:}
        done
        builtin unset __steplatch_entry
        builtin declare +x PROMPT_COMMAND
        ;;
    esac
  elif [[ -n ${__steplatch_key-} ]]; then
    # The way in of a login shell that could not be taken out again.
    builtin return 0
  elif [[ -r ~/.bashrc ]]; then
    builtin . ~/.bashrc
  fi
}

# Nobody traces what follows.
{ \__steplatch_put_away; } 2>/dev/null
{ __steplatch_shopts=$BASHOPTS; \builtin shopt -u expand_aliases; } 2>/dev/null
{ case $- in *x*) __steplatch_traced=1; builtin set +x ;; esac; } 2>/dev/null

__steplatch_key=${STEPLATCH_SHELL_NONCE-}
__steplatch_files=${STEPLATCH_SHELL_EXCHANGE-}
builtin unset STEPLATCH_SHELL_NONCE STEPLATCH_SHELL_EXCHANGE

if [[ -n $__steplatch_key ]]; then
  # Runs before every prompt, after all other hooks: they may set PS1 and PS0 anew each time. bash gives every hook the
  # exit code of the command, whatever the hooks before it did.
  # bash copies a function whenever it is called, so the rare cases are in functions of their own.
  __steplatch_prompt() {
    __steplatch_code=$?
    builtin local __steplatch_real=1
    # bash prints its prompts to standard error, which is 3 here; 4 is standard output.
    if [[ -n ${__steplatch_real-} && ${PROMPT_COMMAND[*]-} == "$__steplatch_hook" && (-o emacs || -o vi) &&
      -z ${__steplatch_bang-} && -z $__steplatch_plain && -t 3 && -t 4 && :$BASHOPTS: == *:promptvars:* &&
      ${PS0-}${PS1-}${PS2-} == *"133;C;k=$__steplatch_key"*"133;B;k=$__steplatch_key"*"133;P;k=s;k=$__steplatch_key"* ]]; then
      __steplatch_without= __steplatch_elsewhere=
      builtin printf "$__steplatch_form" "${__steplatch_status:-$__steplatch_code}" "$((__steplatch_count += 1))" \
        "${__steplatch_ended:-0}" >/dev/tty
      __steplatch_ended=
    else
      __steplatch_prompt_otherwise
    fi
  }
  __steplatch_prompt_otherwise() {
    if [[ -n ${__steplatch_real-} ]]; then
      __steplatch_report
    else
      __steplatch_put_away
      builtin local __steplatch_real=1
      if [[ -n ${__steplatch_real-} ]]; then
        __steplatch_report
        __steplatch_put_back
      else
        # Nothing can be printed past that function, so the prompt itself says what the hook would.
        case ${PS1-} in *"133;B;k=$__steplatch_key"*) ;; *) PS1="${PS1-}\\[\\e]133;B;k=$__steplatch_key\\a\\]" ;; esac
        case $PS1 in *"133;A;k=$__steplatch_key"*) ;; *) PS1="$__steplatch_said$PS1" ;; esac
        case ${PS0-} in *"133;C;k=$__steplatch_key"*) ;; *) PS0="$__steplatch_taken${PS0-}$__steplatch_started" ;; esac
      fi
    fi
  }
  __steplatch_report() {
    __steplatch_without= __steplatch_elsewhere=
    [[ ${PROMPT_COMMAND[*]-} == "$__steplatch_hook" ]] || __steplatch_keep_first
    # Without a line editor there is no key that has a line taken plainly.
    [[ -o emacs || -o vi ]] || builtin set +H
    [[ -z ${__steplatch_bang-} ]] || __steplatch_expand_again
    if [[ :$BASHOPTS: == *:promptvars:* ]]; then
      [[ -z $__steplatch_plain ]] || __steplatch_change_marks ''
    else
      [[ -n $__steplatch_plain ]] || __steplatch_change_marks 1
    fi
    case ${PS0-}${PS1-}${PS2-} in
      *"133;C;k=$__steplatch_key"*"133;B;k=$__steplatch_key"*"133;P;k=s;k=$__steplatch_key"*) ;;
      *) __steplatch_marks '' ;;
    esac
    [[ -t 3 ]] || __steplatch_elsewhere=1 __steplatch_without+=B${__steplatch_plain:+C}
    # What goes through a pipe, as after `exec > >(tee log)`, may come later than this.
    __steplatch_piped=
    [[ ! -p /dev/fd/4 && ! -p /dev/fd/3 ]] || __steplatch_piped=';o=p'
    builtin printf "$__steplatch_form" "${__steplatch_status:-$__steplatch_code}" "$((__steplatch_count += 1))" \
      "${__steplatch_ended:-0}" "$__steplatch_piped" "$__steplatch_without" >/dev/tty
    __steplatch_ended=
  }
  # Exit code, count, and whether the end is marked already; missing arguments are empty.
  __steplatch_form="\\e]133;D;%s;k=$__steplatch_key;n=%s;e=%s%s\\a\\e]133;A;k=$__steplatch_key;w=%s\\a"
  # Uses marks without variables where prompts do not expand them (`shopt -u promptvars`), which $1 says.
  __steplatch_change_marks() {
    if [[ -n ${PS0-} ]] && ! __steplatch_is_fixed PS0; then
      PS0=${PS0//"$__steplatch_started"}
      PS0=${PS0//"$__steplatch_taken"}
    fi
    __steplatch_plain=$1
    if [[ -n $1 ]]; then
      __steplatch_expanded=("$__steplatch_taken" "$__steplatch_started")
      __steplatch_taken= __steplatch_started="\\e]133;C;k=$__steplatch_key\\a"
    else
      __steplatch_taken=${__steplatch_expanded[0]} __steplatch_started=${__steplatch_expanded[1]}
    fi
  }
  __steplatch_plain=
  # Puts the marks at the end of the prompts, where they are not; $1 goes to the front of PS1. __steplatch_without gets the
  # marks that have no place.
  __steplatch_marks() {
    case ${PS1-} in
      *"133;B;k=$__steplatch_key"*) ;;
      *) if __steplatch_is_fixed PS1; then __steplatch_without+=B; else PS1="$1${PS1-}\\[\\e]133;B;k=$__steplatch_key\\a\\]"; fi ;;
    esac
    case ${PS0-} in
      *"133;C;k=$__steplatch_key"*) ;;
      *) if __steplatch_is_fixed PS0; then __steplatch_without+=C; else PS0="$__steplatch_taken${PS0-}$__steplatch_started"; fi ;;
    esac
    case ${PS2-} in
      *"133;P;k=s;k=$__steplatch_key"*) ;;
      *) __steplatch_is_fixed PS2 || PS2="${PS2-}\\[\\e]133;P;k=s;k=$__steplatch_key\\a\\]" ;;
    esac
  }
  # If bash has not understood a line before the command that begins, the exit code says so there. What PS0 prints between
  # this and the next mark is not output of the line before.
  __steplatch_taken="\\e]133;R;k=$__steplatch_key;s=\$?;n=\$((__steplatch_count += 1))\\a"
  __steplatch_started="\\e]133;C;k=$__steplatch_key;n=\$__steplatch_count\\a"
  if ((BASH_VERSINFO[0] >= 5)); then
    # Without a fork, which takes longer than all the rest.
    builtin eval '__steplatch_is_fixed() { builtin local - && builtin set +u; builtin local -n __steplatch_named=$1; case ${__steplatch_named@a} in *r*) ;; *) builtin return 1 ;; esac; }'
  else
    __steplatch_is_fixed() { case $(\builtin declare -p "$1" 2>/dev/null) in 'declare -'*r*" $1"*) ;; *) builtin return 1 ;; esac; }
  fi
  ((BASH_VERSINFO[0] > 4 || (BASH_VERSINFO[0] == 4 && BASH_VERSINFO[1] >= 4))) || builtin readonly PS0=

  # A command that a program enters is taken for what it is: the program presses a key first, which takes `!` out of
  # use until the command begins, or until the next prompt.
  __steplatch_take_plainly() {
    if [[ -z ${__steplatch_bang-} ]]; then
      __steplatch_bang=${histchars-} __steplatch_had_bang=${histchars+x}
      __steplatch_bang=${__steplatch_bang:-'!^#'}
      histchars=
    fi
  }
  __steplatch_expand_again() {
    if [[ -n $__steplatch_had_bang ]]; then histchars=$__steplatch_bang; else builtin unset histchars; fi
    __steplatch_bang=
  }
  # A fork only where the prompts are not printed to the terminal.
  __steplatch_elsewhere=
  __steplatch_mark_start() {
    __steplatch_code=$?
    __steplatch_put_away
    builtin printf '\e]133;R;k=%s;s=%s\a\e]133;C;k=%s\a' "$__steplatch_key" "$__steplatch_code" "$__steplatch_key" >/dev/tty
  }
  __steplatch_started+="\${__steplatch_elsewhere:+\$(__steplatch_mark_start)}"
  __steplatch_started="\${__steplatch_bang:+\${histchars##\"\${histchars:=\$__steplatch_bang}\"}}$__steplatch_started"

  # Marks where the output of a command ends, before all other hooks. Where there are none, the prompt's hook does.
  __steplatch_end() {
    __steplatch_code=$?
    __steplatch_put_away
    builtin local __steplatch_real=1
    if [[ -n ${__steplatch_real-} ]]; then
      __steplatch_ended=1
      builtin printf '\e]133;E;k=%s\a' "$__steplatch_key" >/dev/tty
      [[ -n $__steplatch_function ]] || builtin return "$__steplatch_code"
      __steplatch_put_back
    fi
  }
  # What set -x and a DEBUG trap print for the hooks goes nowhere: they are nobody's command.
  __steplatch_first='{ __steplatch_end; } >/dev/null 2>&1'
  __steplatch_hook='{ __steplatch_prompt; } 3>&2 4>&1 >/dev/null 2>&1'
  # Puts the first hook in front of the others. Entries change where they are, because bash goes through the list meanwhile.
  __steplatch_keep_first() {
    [[ -n ${PROMPT_COMMAND[999]-} ]] || builtin return 0
    if [[ ${PROMPT_COMMAND[0]-} != "$__steplatch_first" ]]; then
      if [[ ${PROMPT_COMMAND[1]-} == "$__steplatch_second" ]]; then
        # Who sets PROMPT_COMMAND as if it were one command replaces its first entry, and means the one behind ours.
        PROMPT_COMMAND[1]=${PROMPT_COMMAND[0]//"$__steplatch_first"/"${PROMPT_COMMAND[1]:-:}"}
      else
        builtin local __steplatch_entries __steplatch_entry __steplatch_place
        __steplatch_entries=("${!PROMPT_COMMAND[@]}")
        for ((__steplatch_entry = ${#__steplatch_entries[@]} - 1; __steplatch_entry >= 0; __steplatch_entry--)); do
          __steplatch_place=${__steplatch_entries[__steplatch_entry]}
          ((__steplatch_place < 998)) || builtin continue
          case ${PROMPT_COMMAND[__steplatch_place]} in
            "$__steplatch_first" | "$__steplatch_hook") PROMPT_COMMAND[__steplatch_place]=: ;;
          esac
          PROMPT_COMMAND[__steplatch_place + 1]=${PROMPT_COMMAND[__steplatch_place]}
          PROMPT_COMMAND[__steplatch_place]=:
        done
      fi
      PROMPT_COMMAND[0]=$__steplatch_first
    fi
    __steplatch_second=${PROMPT_COMMAND[1]-}
  }
  __steplatch_count=0
  __steplatch_said="\\[\\e]133;D;\$?;k=$__steplatch_key;n=\$((__steplatch_count += 1));e=0\\a\\e]133;A;k=$__steplatch_key;w=\$__steplatch_without\\a\\]"
  if __steplatch_is_fixed PROMPT_COMMAND; then
    # It cannot be changed.
    __steplatch_without=
    __steplatch_marks "$__steplatch_said"
  elif ((BASH_VERSINFO[0] > 5 || (BASH_VERSINFO[0] == 5 && BASH_VERSINFO[1] >= 1))); then
    # At both ends of the list, or alone.
    PROMPT_COMMAND[999]=$__steplatch_hook
    __steplatch_second=nobody
    [[ ${PROMPT_COMMAND[*]-} == "$__steplatch_hook" ]] || __steplatch_keep_first
    # Where a command has taken the hook away, the next command puts it back: this expands to nothing, and sets it.
    __steplatch_started="\${__steplatch_hook##\"\${PROMPT_COMMAND[999]:=\$__steplatch_hook}\"}$__steplatch_started"
  else
    __steplatch_keep_first() { builtin :; }
    PROMPT_COMMAND="__steplatch_status=\$?
$__steplatch_first
${PROMPT_COMMAND-}
$__steplatch_hook"
  fi
  # Unless the hooks of the first prompt are still to come, they are running already.
  [[ -n ${STEPLATCH_SHELL_WAY_IN-} && -z ${__steplatch_before_hooks-} ]] && __steplatch_prompt 3>&2 4>&1
  builtin unset STEPLATCH_SHELL_WAY_IN __steplatch_before_hooks

  # What bash says when it ends is not output of the command that has it end. Where jobs are stopped it stays at the first
  # `exit`, and what it says then is output.
  # A function of these names stays. (`type -t` would need a fork for each.)
  if ! { builtin declare -F exit || builtin declare -F logout; } >/dev/null 2>&1; then
    exit() { { __steplatch_bye=$?; __steplatch_leave $#; } 2>/dev/null; [[ -z ${__steplatch_stuck-} ]] || { POSIXLY_CORRECT=1; \exit "${@:-$__steplatch_bye}"; }; builtin exit "${@:-$__steplatch_bye}"; { __steplatch_stay; } 2>/dev/null; }
    logout() { { __steplatch_bye=$?; __steplatch_leave $#; } 2>/dev/null; [[ -z ${__steplatch_stuck-} ]] || { POSIXLY_CORRECT=1; \exit "${@:-$__steplatch_bye}"; }; builtin logout "${@:-$__steplatch_bye}"; { __steplatch_stay; } 2>/dev/null; }
  fi
  __steplatch_exit_count=-9
  __steplatch_leave() {
    ((BASH_SUBSHELL || $1 > 1)) || __steplatch_end
    __steplatch_put_away
    # bash ends if the command before was `exit` or `jobs`, and this function runs others between. A prompt and a line count.
    ((__steplatch_count > __steplatch_exit_count + 2)) || builtin jobs >/dev/null
  }
  __steplatch_stay() {
    __steplatch_ended= __steplatch_exit_count=$__steplatch_count
    __steplatch_put_back
    [[ -n '' ]]
  }

  # Does what the request file says, into the answer file, and says that it is done. The last argument of the caller's
  # last command comes and goes as $1, so that $_ stays what it was.
  __steplatch_exchange() {
    builtin local - __steplatch_set=$-
    builtin set +uxeT
    if [[ -r $__steplatch_files.request ]]; then
      builtin . "$__steplatch_files.request" >|"$__steplatch_files.answer" 2>/dev/null
    fi
  }
  # A signal would have to wait until a line is entered; a key that no keyboard has does not.
  if ((BASH_VERSINFO[0] > 4 || (BASH_VERSINFO[0] == 4 && BASH_VERSINFO[1] >= 4))); then
    for __steplatch_keymap in emacs vi-insert vi-command; do
      # A function sees neither all traps nor the parameters, so they are listed before it, if they are asked for. A trap that runs meanwhile may
      # set the line that is edited: it becomes what it was, and the last command says nothing that counts where it did not.
      builtin bind -m "$__steplatch_keymap" -x '"\e\C-_s": { __steplatch_last=$_ __steplatch_line=${READLINE_LINE-} __steplatch_point=${READLINE_POINT-}; __steplatch_put_away; \builtin test ! -r "$__steplatch_files.apart" || { \builtin trap -p; \builtin printf "\\0%s" "$#" "$@"; } >|"$__steplatch_files.apart"; __steplatch_exchange "$__steplatch_last"; READLINE_LINE=$__steplatch_line READLINE_POINT=$__steplatch_point; \builtin printf "\\e]133;V;k=%s%s\\a%.0s" "$__steplatch_key" "${READLINE_LINE:+!}" "$__steplatch_last" >/dev/tty; __steplatch_put_back "$__steplatch_last"; } >/dev/null 2>&1' 2>/dev/null
      builtin bind -m "$__steplatch_keymap" -x '"\e\C-_h": { __steplatch_take_plainly "$_"; } >/dev/null 2>&1' 2>/dev/null
    done
    builtin unset __steplatch_keymap
  else
    # That key does nothing here, and neither does `!`.
    builtin set +H
    builtin bind '"\e\C-_h": ""' 2>/dev/null
  fi
fi

{
  if [[ :$__steplatch_shopts: == *:expand_aliases:* ]]; then builtin shopt -s expand_aliases; fi
  builtin unset __steplatch_shopts
  if [[ -n ${__steplatch_traced-} ]]; then
    builtin unset __steplatch_traced
    { builtin set -x; __steplatch_put_back; } 2>/dev/null
  else
    __steplatch_put_back
  fi
}
