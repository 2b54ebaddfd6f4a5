# Everything that decides the meaning of a command line in bash, in parts: a name and a text, each ended by NUL. Nothing forks.
\builtin printf 'options\0%s %s\n' "$__steplatch_set" "$0"; \builtin set -o; \builtin shopt -p; \builtin umask; \builtin enable -a; \builtin printf '\0'
\builtin printf 'aliases\0'; \builtin alias -p; \builtin printf '\0'
\builtin printf 'directories\0'; \builtin dirs -l -p; \builtin printf '\0'
\builtin printf 'jobs\0'; \builtin jobs -p; \builtin printf '\0'
\builtin printf 'path\0%s\0' "$PATH"
\builtin printf 'commands\0'; \builtin hash -l; \builtin printf '\0'
\builtin printf 'keys\0'; \builtin bind -v; \builtin bind -p; \builtin bind -s; \builtin bind -X
# Escape leads to this map in vi mode, and the lists above have the current one only.
\builtin bind -m vi-command -p; \builtin bind -m vi-command -s; \builtin bind -m vi-command -X; \builtin printf '\0'
\builtin printf 'completions\0'; \builtin complete -p; \builtin printf '\0'
\builtin printf 'functions\0'; \builtin declare -f; \builtin printf '\0'
\builtin printf 'variables\0'; \builtin declare -p; \builtin printf '\0'
\builtin printf 'end\0\0'
