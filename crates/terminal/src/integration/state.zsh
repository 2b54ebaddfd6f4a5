# Everything that decides the meaning of a command line in zsh, in parts: a name and a text, each ended by NUL. Nothing forks.
builtin zmodload -F zsh/parameter p:parameters p:functions p:aliases p:galiases p:saliases p:options p:commands p:builtins p:modules p:jobstates 2>/dev/null
builtin printf 'options\0%s\n' "$__steplatch_options"; builtin umask; builtin disable; builtin disable -a; builtin disable -f; builtin disable -r; builtin disable -s; builtin printf '\0'
builtin printf 'aliases\0'; builtin alias -L; builtin alias -gL; builtin alias -sL; builtin printf '\0'
builtin printf 'directories\0'; builtin hash -dL; builtin dirs -lp; builtin printf '\0'
builtin printf 'keys\0'; builtin bindkey -L; builtin zle -lL; builtin zle -FL
() { local __steplatch_name; for __steplatch_name in emacs viins vicmd viopp visual isearch command menuselect; do builtin bindkey -LM $__steplatch_name; done }
builtin printf '\0'
# A loaded module may lack some of its builtins, and the name of one may load another module.
builtin printf 'builtins\0%s\0' "${(okj: :)builtins}"
builtin printf 'mathematical functions\0'; builtin functions -M; builtin printf '\0'
# Plugins keep what they run at each line there.
builtin printf 'styles\0'; [[ ${modules[zsh/zutil]-} == loaded ]] && builtin zstyle -L; builtin printf '\0'
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
  # The integration has it out of use at the moment.
  (( ${+dis_functions[builtin]} )) && builtin printf 'function builtin\0%s\0' "${dis_functions[builtin]}"
  for __steplatch_name in ${(ko)parameters}; do
    # To look at one of these would load the module that has them.
    [[ $__steplatch_name == (watch|WATCH|WATCHFMT|LOGCHECK) ]] && builtin continue
    # Hidden and special ones are those of modules. The parts above have them.
    [[ ${parameters[$__steplatch_name]} == (*hide*special*|*local*|*undefined*) ]] && builtin continue
    # The keys of an association come from its name only. No word here may be out of use, and no sign mean something else.
    [[ ${parameters[$__steplatch_name]} == association* ]] && {
      builtin printf 'variable %s\0%s' "$__steplatch_name" "${parameters[$__steplatch_name]}"
      builtin eval "builtin printf ' %s' \"\${(@kvqqqq)$__steplatch_name}\""
      builtin printf '\0'
      builtin continue
    }
    builtin printf 'variable %s\0%s %s\0' "$__steplatch_name" "${parameters[$__steplatch_name]}" "${(j: :)${(@qqqq)${(@P)__steplatch_name}}}"
  done
  for __steplatch_name in ${(k)commands}; do
    builtin printf 'command %s\0%s\0' "$__steplatch_name" "${commands[$__steplatch_name]}"
  done
}
# Looking at the variables may have loaded some.
builtin printf 'modules\0'; builtin zmodload; builtin printf '\0'
builtin printf 'end\0\0'
