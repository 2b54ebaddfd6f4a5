# Everything that decides the meaning of a command line in zsh, in parts: a name and a text, each ended by NUL. Nothing forks.
builtin zmodload -F zsh/parameter p:parameters p:functions p:aliases p:galiases p:saliases p:options p:commands p:builtins p:jobstates 2>/dev/null
builtin printf 'options\0%s\n' "$__steplatch_options"; builtin umask; builtin disable; builtin disable -a; builtin disable -f; builtin disable -r; builtin disable -s; builtin printf '\0'
builtin printf 'aliases\0'; builtin alias -L; builtin alias -gL; builtin alias -sL; builtin printf '\0'
builtin printf 'directories\0'; builtin hash -dL; builtin dirs -lp; builtin printf '\0'
builtin printf 'keys\0'; builtin bindkey -L; builtin zle -lL; builtin zle -FL; builtin printf '\0'
builtin printf 'path\0%s\0' "$PATH"
builtin printf 'traps\0'; builtin trap; builtin printf '\0'
builtin printf 'jobs\0'; builtin printf '%s\n' ${(v)jobstates}; builtin printf '\0'
(( ${+builtins[sched]} )) && { builtin printf 'schedule\0'; builtin sched; builtin printf '\0' }
[[ $__steplatch_how == parameters ]] && builtin printf 'parameters\0%s\0' "$# ${(j: :)${(@qqqq)@}}"
() {
  local __steplatch_name
  for __steplatch_name in ${(ko)functions}; do
    builtin printf 'function %s\0%s\0' "$__steplatch_name" "${functions[$__steplatch_name]}"
  done
  for __steplatch_name in ${(ko)parameters}; do
    # To look at one of these would load the module that has them.
    [[ $__steplatch_name == (__steplatch*|watch|WATCH|WATCHFMT|LOGCHECK) ]] && builtin continue
    [[ ${parameters[$__steplatch_name]} == *(hide|local|undefined)* ]] && builtin continue
    builtin printf 'variable %s\0%s %s\0' "$__steplatch_name" "${parameters[$__steplatch_name]}" "${(j: :)${(@qqqq)${(@Pkv)__steplatch_name}}}"
  done
  for __steplatch_name in ${(k)commands}; do
    builtin printf 'command %s\0%s\0' "$__steplatch_name" "${commands[$__steplatch_name]}"
  done
}
# Looking at the variables may have loaded some.
builtin printf 'modules\0'; builtin zmodload; builtin printf '\0'
builtin printf 'end\0\0'
