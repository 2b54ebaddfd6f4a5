# Shell integration of steplatch for zsh: marks (OSC 133) around the prompt, the command line and its output, and a way
# to ask for variables that leaves no trace. zsh reads this in place of the user's .zshenv; ZDOTDIR is the user's own
# again from the first lines on, so that zsh reads all other files, and keeps its history, where it always does.

if (( ${+STEPLATCH_SHELL_ZDOTDIR} )); then
  export ZDOTDIR=$STEPLATCH_SHELL_ZDOTDIR
  unset STEPLATCH_SHELL_ZDOTDIR
else
  unset ZDOTDIR
fi

if [[ -o interactive && -n ${STEPLATCH_SHELL_NONCE-} ]]; then
  typeset -g __steplatch_key=$STEPLATCH_SHELL_NONCE __steplatch_files=${STEPLATCH_SHELL_EXCHANGE-}
  typeset -g __steplatch_fills_line=

  # Runs before every prompt. The other hooks come first: they may set the prompts anew each time.
  __steplatch_precmd() {
    local code=$?
    # zsh would fill up a line without an end before we can say that the command is over; we do it after that.
    if [[ -o prompt_sp ]]; then
      unsetopt prompt_sp
      __steplatch_fills_line=1
    fi
    __steplatch_tell $code
    return $code
  }

  __steplatch_tell() {
    emulate -L zsh
    local code=$1
    builtin printf '\e]133;D;%s;k=%s\a\e]133;A;k=%s\a' $code $__steplatch_key $__steplatch_key >$TTY
    __steplatch_keep_line
    __steplatch_marks
    if [[ ${precmd_functions[-1]-} != __steplatch_precmd ]]; then
      precmd_functions=(${precmd_functions:#__steplatch_precmd} __steplatch_precmd)
      # Whoever stands behind us at this prompt may set it yet; this runs when they have.
      (( ${+builtins[sched]} )) && sched +0 __steplatch_marks
    fi
  }

  # Does what zsh does for PROMPT_SP.
  __steplatch_keep_line() {
    [[ -n $__steplatch_fills_line ]] || return
    local mark=${PROMPT_EOL_MARK-%B%S%#%s%b} bare
    mark=${(%)mark}
    setopt local_options extended_glob
    bare=${mark//$'\e['[0-9;]#m/}
    builtin printf '%s%*s\r%*s\r' "$mark" $(( COLUMNS - ${#bare} )) '' ${#bare} '' >$TTY
  }

  # Puts the marks into the prompts, where they are not.
  __steplatch_marks() {
    local key="k=$__steplatch_key"
    [[ $PS1 == *"133;B;$key"* ]] || PS1="%{"$'\e]133;A;'"$key"$'\a'"%}$PS1%{"$'\e]133;B;'"$key"$'\a'"%}"
    [[ $PS2 == *"133;P;k=s;$key"* ]] || PS2="$PS2%{"$'\e]133;P;k=s;'"$key"$'\a'"%}"
  }

  __steplatch_preexec() {
    emulate -L zsh
    builtin printf '\e]133;C;k=%s\a' $__steplatch_key >$TTY
    # A command before this one may have emptied the list.
    (( ${precmd_functions[(I)__steplatch_precmd]} )) || precmd_functions+=(__steplatch_precmd)
  }

  # Answers a request for variables. A handler that somebody else has for the signal is asked where there is none.
  __steplatch_exchange() {
    local __steplatch_options="${(kv)options[@]}"
    emulate -L zsh
    # The request is read as it stands, whatever its words are to the user.
    setopt no_aliases
    if [[ -r $__steplatch_files.request ]]; then
      builtin source "$__steplatch_files.request" >|"$__steplatch_files.answer" 2>/dev/null
      builtin printf '\e]133;V;k=%s\a' $__steplatch_key >$TTY
      return 0
    fi
    (( ${+functions[__steplatch_their_usr1]} )) && __steplatch_their_usr1 "$@"
  }

  # Takes the places of the integration, once all of the user's files were read. Options and traps that are local here
  # would be gone afterwards, so this runs under the user's own.
  __steplatch_install() {
    local code=$?
    if (( ${+functions[TRAPUSR1]} )); then
      functions[__steplatch_their_usr1]=${functions[TRAPUSR1]}
      TRAPUSR1() { __steplatch_exchange "$@" }
    elif [[ "$(trap)" != *USR1* ]]; then
      TRAPUSR1() { __steplatch_exchange "$@" }
    fi
    __steplatch_take_places
    ( exit $code )
    __steplatch_precmd
    return $code
  }

  __steplatch_take_places() {
    emulate -L zsh
    unset -f __steplatch_install __steplatch_take_places
    typeset -ga precmd_functions preexec_functions
    preexec_functions=(${preexec_functions:#__steplatch_preexec} __steplatch_preexec)
    precmd_functions=(${precmd_functions:#__steplatch_(install|precmd)} __steplatch_precmd)
  }

  # From here the user's files may empty the list of hooks, but who would empty the schedule: it comes after the hooks.
  if zmodload -F zsh/sched b:sched 2>/dev/null; then
    sched +0 __steplatch_install
  else
    typeset -ga precmd_functions
    precmd_functions+=(__steplatch_install)
  fi
fi
unset STEPLATCH_SHELL_NONCE STEPLATCH_SHELL_EXCHANGE

if [[ -r ${ZDOTDIR-$HOME}/.zshenv ]]; then
  builtin source "${ZDOTDIR-$HOME}/.zshenv"
fi
