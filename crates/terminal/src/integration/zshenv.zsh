# Shell integration of steplatch for zsh: marks (OSC 133) around the prompt, the command line and its output, and a way
# to ask for variables that leaves no trace. zsh reads this in place of the user's .zshenv; ZDOTDIR is the user's own
# again from the first lines on, so that zsh reads all other files, and keeps its history, where it always does.
#
# No word below is the user's: all functions are read here, before the user's files and without the aliases of the system,
# and `builtin` passes functions over. What zsh reads when it runs it, as `$(…)`, has a backslash before its words.
# Each function that zsh calls is two: the first one has the second one run past a function named `builtin`.

[[ -o aliases ]] && __steplatch_aliases=1
\builtin \setopt no_aliases

if (( ${+STEPLATCH_SHELL_ZDOTDIR} )); then
  export ZDOTDIR=$STEPLATCH_SHELL_ZDOTDIR
  builtin unset STEPLATCH_SHELL_ZDOTDIR
else
  builtin unset ZDOTDIR
fi

if [[ -o interactive && -n ${STEPLATCH_SHELL_NONCE-} ]]; then
  typeset -g __steplatch_key=$STEPLATCH_SHELL_NONCE __steplatch_files=${STEPLATCH_SHELL_EXCHANGE-}
  typeset -gi __steplatch_count=0
  typeset -ga __steplatch_set __steplatch_globals
  typeset -g __steplatch_without= __steplatch_bang= __steplatch_time=

  # Runs a command with a function named `builtin` out of use. No word does that, because it may be a function, too.
  __steplatch_past() {
    dis_functions[builtin]=${functions[builtin]}
    { "$@" } always { functions[builtin]=${dis_functions[builtin]} }
  }

  # Runs before every prompt. The other hooks come first: they may set the prompts anew each time.
  __steplatch_precmd() {
    local __steplatch_code=$?
    # A command that calls the hooks is at no prompt.
    if [[ ${ZSH_EVAL_CONTEXT-} != toplevel* ]]; then
      if (( ${+functions[builtin]} )); then __steplatch_past __steplatch_report $__steplatch_code; else __steplatch_report $__steplatch_code; fi
    fi
  }
  __steplatch_report() {
    local __steplatch_code=$1
    __steplatch_expand_again
    [[ -z $__steplatch_time ]] || REPORTTIME=$__steplatch_time __steplatch_time=
    # Without a mark in front of it, what zsh prints to keep a line would be output.
    [[ ${(t)PROMPT_EOL_MARK-} == *readonly* ]] && builtin unsetopt prompt_sp
    __steplatch_tell $__steplatch_code
    builtin return $__steplatch_code
  }

  __steplatch_tell() {
    builtin emulate -L zsh
    local __steplatch_code=$1
    __steplatch_without=
    __steplatch_marks
    # What goes through a pipe, as after `exec > >(tee log)`, may come later than this.
    local __steplatch_piped=
    [[ ! -p /dev/fd/1 && ! -p /dev/fd/2 ]] || __steplatch_piped=';o=p'
    builtin printf '\e]133;D;%s;k=%s;n=%d%s\a\e]133;A;k=%s;w=%s\a' $__steplatch_code $__steplatch_key \
      $(( ++__steplatch_count )) "$__steplatch_piped" $__steplatch_key "$__steplatch_without" >$TTY
    __steplatch_keep_hooks
    if [[ ${precmd_functions[-1]-} != __steplatch_precmd ]]; then
      precmd_functions=(${precmd_functions:#__steplatch_precmd} __steplatch_precmd)
      # Whoever stands behind us at this prompt may set it yet; this runs when they have.
      (( ${+builtins[sched]} )) && builtin sched +0 __steplatch_marks
    fi
    builtin bindkey -M main '\e^_e' __steplatch_enter '\e^_p' __steplatch_paste
  }

  # Puts the marks into the prompts, where they are not, and into what zsh prints before all hooks: the sign behind a line
  # without an end. __steplatch_without gets the mark that has no place.
  __steplatch_marks() {
    local __steplatch_own="k=$__steplatch_key"
    if [[ $PS1 != *"133;B;$__steplatch_own"* ]]; then
      if [[ ${(t)PS1} == *readonly* ]]; then
        __steplatch_without=B
      else
        PS1="%{"$'\e]133;A;'"$__steplatch_own"$'\a'"%}$PS1%{"$'\e]133;B;'"$__steplatch_own"$'\a'"%}"
      fi
    fi
    [[ $PS2 == *"133;P;k=s;$__steplatch_own"* || ${(t)PS2} == *readonly* ]] || PS2="$PS2%{"$'\e]133;P;k=s;'"$__steplatch_own"$'\a'"%}"
    [[ $PROMPT_EOL_MARK == *"133;E;$__steplatch_own"* || ${(t)PROMPT_EOL_MARK} == *readonly* ]] ||
      PROMPT_EOL_MARK="%{"$'\e]133;E;'"$__steplatch_own"$'\a'"%}${PROMPT_EOL_MARK-%B%S%#%s%b}"
  }

  __steplatch_preexec() {
    if (( ${+functions[builtin]} )); then __steplatch_past __steplatch_begin; else __steplatch_begin; fi
  }
  __steplatch_begin() {
    # zsh reports the time of a command before any hook, so that it would be output of a program's command.
    [[ -n $__steplatch_bang && -n ${REPORTTIME-} ]] && __steplatch_time=$REPORTTIME REPORTTIME=-1
    # Not where options are local.
    __steplatch_expand_again
    __steplatch_start
  }
  __steplatch_start() {
    [[ ${precmd_functions[-1]-} == __steplatch_precmd ]] || __steplatch_keep_hooks
    # The last command, because what `setopt xtrace` prints of those after it would be output.
    builtin printf '\e]133;C;k=%s\a' "$__steplatch_key" >"$TTY"
  }
  # A command before this one may have emptied the lists, or set them anew. zsh knows by now which hooks it runs before this
  # command, but not which ones after it.
  __steplatch_keep_hooks() {
    builtin emulate -L zsh
    (( ${precmd_functions[(I)__steplatch_precmd]} )) || precmd_functions+=(__steplatch_precmd)
    [[ ${preexec_functions[-1]-} == __steplatch_preexec ]] ||
      preexec_functions=(${preexec_functions:#__steplatch_preexec} __steplatch_preexec)
  }

  # Enters a line of a program, which is read as in a script: nothing of it is replaced or corrected. The options that
  # zsh has looked at by now stay as they are; its characters of the history become ones that no line contains.
  __steplatch_enter() {
    if (( ${+functions[builtin]} )); then __steplatch_past __steplatch_accept; else __steplatch_accept; fi
  }
  __steplatch_accept() {
    local __steplatch_option
    __steplatch_keep_hooks
    __steplatch_bang=x$histchars
    histchars=$'\x01\x02#'
    for __steplatch_option in nocorrect nocorrectall interactivecomments; do
      [[ -o $__steplatch_option ]] && builtin continue
      builtin setopt $__steplatch_option
      __steplatch_set+=($__steplatch_option)
    done
    __steplatch_globals=("${(@k)galiases[@]}")
    (( ${#galiases[@]} )) && builtin disable -a "${__steplatch_globals[@]}"
    POSTDISPLAY=
    builtin zle .accept-line
  }
  # Ends that, once the line is read.
  __steplatch_expand_again() {
    [[ -n $__steplatch_bang ]] || builtin return 0
    histchars=${__steplatch_bang#x}
    (( ${#__steplatch_set[@]} )) && builtin unsetopt "${__steplatch_set[@]}"
    (( ${#__steplatch_globals[@]} )) && builtin enable -a "${__steplatch_globals[@]}"
    __steplatch_set=() __steplatch_globals=() __steplatch_bang=
  }

  # Answers a request for variables. A handler that somebody else has for the signal is asked where there is none. $1 says
  # whose arguments follow: a trap that is not a function has the parameters of the shell.
  __steplatch_exchange() {
    if (( ${+functions[builtin]} )); then __steplatch_past __steplatch_answer "$@"; else __steplatch_answer "$@"; fi
  }
  __steplatch_answer() {
    local __steplatch_options="${(kv)options[@]}" __steplatch_how=$1
    builtin shift
    # These are all in use again from the next line on.
    [[ -r $__steplatch_files.apart ]] && builtin disable -p >|"$__steplatch_files.apart" 2>/dev/null
    builtin emulate -L zsh
    # The request is read as it stands, whatever its words are to the user.
    builtin setopt no_aliases
    if [[ -r $__steplatch_files.request ]]; then
      builtin source "$__steplatch_files.request" >|"$__steplatch_files.answer" 2>/dev/null
      builtin printf '\e]133;V;k=%s\a' $__steplatch_key >$TTY
      builtin return 0
    fi
    (( ${+functions[__steplatch_their_usr1]} )) && __steplatch_their_usr1 "$@"
  }

  # Takes the places of the integration, once all of the user's files were read. Options and traps that are local here
  # would be gone afterwards, so this runs under the user's own.
  __steplatch_install() {
    local __steplatch_code=$?
    if (( ${+functions[builtin]} )); then __steplatch_past __steplatch_place $__steplatch_code; else __steplatch_place $__steplatch_code; fi
  }
  __steplatch_place() {
    local __steplatch_code=$1
    if (( ${+functions[TRAPUSR1]} )); then
      functions[__steplatch_their_usr1]=${functions[TRAPUSR1]}
      TRAPUSR1() { __steplatch_exchange signal "$@" }
    elif [[ "$(\builtin \trap)" != *USR1* ]]; then
      builtin trap '__steplatch_exchange parameters "$@"' USR1
    fi
    __steplatch_take_places
    ( builtin exit $__steplatch_code )
    __steplatch_precmd
    builtin return $__steplatch_code
  }

  __steplatch_take_places() {
    builtin emulate -L zsh
    builtin unset -f __steplatch_install __steplatch_place __steplatch_take_places
    typeset -ga precmd_functions preexec_functions
    builtin zle -N __steplatch_enter
    # A plugin may replace the widget by one that quotes URLs in a paste.
    builtin zle -A .bracketed-paste __steplatch_paste
    # The map that edits is bound at each prompt.
    local __steplatch_keymap
    for __steplatch_keymap in emacs viins vicmd; do
      builtin bindkey -M $__steplatch_keymap '\e^_e' __steplatch_enter '\e^_p' __steplatch_paste
    done
    preexec_functions=(${preexec_functions:#__steplatch_preexec} __steplatch_preexec)
    precmd_functions=(${precmd_functions:#__steplatch_(install|precmd)} __steplatch_precmd)
  }

  # From here the user's files may empty the list of hooks, but who would empty the schedule: it comes after the hooks.
  if builtin zmodload -F zsh/sched b:sched 2>/dev/null; then
    builtin sched +0 __steplatch_install
  else
    typeset -ga precmd_functions
    precmd_functions+=(__steplatch_install)
  fi
fi
builtin unset STEPLATCH_SHELL_NONCE STEPLATCH_SHELL_EXCHANGE

{
  (( ${+__steplatch_aliases} )) && builtin setopt aliases
  builtin unset __steplatch_aliases
  if [[ -r ${ZDOTDIR-$HOME}/.zshenv ]]; then
    builtin source "${ZDOTDIR-$HOME}/.zshenv"
  fi
}
