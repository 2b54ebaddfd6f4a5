# Everything that decides the meaning of a command line in fish, in parts: a name and a text, each ended by NUL.
builtin printf 'options\0'; builtin status is-full-job-control; and builtin echo full; builtin status is-no-job-control; and builtin echo none; builtin printf '\0'
builtin printf 'aliases\0'; if builtin -q abbr; builtin abbr --show; else; abbr --show 2>/dev/null; end; builtin printf '\0'
builtin printf 'keys\0'; builtin bind; builtin printf '\0'
set -l __steplatch_name
# fish reads a file with a function when that is needed first, and again when the file has changed.
set -l __steplatch_files
for __steplatch_name in $fish_function_path
    string match -q "$__fish_data_dir/*" -- $__steplatch_name; and continue
    set -a __steplatch_files $__steplatch_name/*.fish
end
set -l __steplatch_times (builtin path mtime -- $__steplatch_files 2>/dev/null)
set -l __steplatch_number 0
for __steplatch_name in $__steplatch_files
    set __steplatch_number (builtin math $__steplatch_number + 1)
    builtin printf 'function %s\0' (string replace -r '^.*/(.*)[.]fish$' '$1' -- $__steplatch_name)
    builtin printf '%s %s\0' $__steplatch_name "$__steplatch_times[$__steplatch_number]"
end
for __steplatch_name in (builtin functions --all --names)
    # Those that it has read from files are among the files.
    set -l __steplatch_file (builtin functions --details --verbose $__steplatch_name)
    test "$__steplatch_file[2]" = autoloaded; and continue
    string match -q "$__fish_data_dir/*" -- $__steplatch_file[1]; and continue
    builtin printf 'function %s\0%s\n' $__steplatch_name "$__steplatch_file[1]"
    builtin functions $__steplatch_name
    builtin printf '\0'
end
set -l __steplatch_names
set -l __steplatch_shown
for __steplatch_name in (builtin set --names)
    builtin contains -- $__steplatch_name history status pipestatus; and continue
    set -a __steplatch_names $__steplatch_name
    set -a __steplatch_shown (builtin set --show $__steplatch_name | string collect)
    builtin printf 'fish-variable %s\0%s\0' $__steplatch_name $__steplatch_shown[-1]
end
# fish runs the prompt whenever it draws, also when the window changes its size. What the prompt counts there decides
# nothing, as long as no program inherits it and fish finds no functions by it.
if builtin functions -q __steplatch_their_prompt
    __steplatch_their_prompt >/dev/null 2>&1
    set -l __steplatch_at 0
    for __steplatch_name in $__steplatch_names
        set __steplatch_at (builtin math $__steplatch_at + 1)
        set -l __steplatch_text (builtin set --show $__steplatch_name | string collect)
        test "$__steplatch_text" = "$__steplatch_shown[$__steplatch_at]"; and continue
        string match -q '*, exported,*' -- $__steplatch_text; and continue
        builtin contains -- $__steplatch_name fish_function_path fish_complete_path; and continue
        builtin printf 'varies %s\0\0' $__steplatch_name
    end
end
# Of this function's own arguments the shell's follow.
builtin printf 'parameters\0'
set -l __steplatch_is_global
for __steplatch_text in (builtin set --show argv)
    string match -q '*: set in global scope,*' -- $__steplatch_text; and set __steplatch_is_global 1
    test -n "$__steplatch_is_global"; and builtin printf '%s\n' $__steplatch_text
end
builtin printf '\0'
builtin printf 'jobs\0'; builtin jobs -p 2>/dev/null; builtin printf '\0'
builtin printf 'end\0\0'
