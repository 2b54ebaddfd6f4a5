# Everything that decides the meaning of a command line in fish, in parts: a name and a text, each ended by NUL.
builtin printf 'aliases\0'; abbr --show 2>/dev/null; builtin printf '\0'
builtin printf 'keys\0'; bind; builtin printf '\0'
set -l __steplatch_name
for __steplatch_name in (builtin functions --all --names)
    # fish loads its own functions, and those of the directories that are searched, when they are needed first.
    set -l __steplatch_file (builtin functions --details --verbose $__steplatch_name)
    test "$__steplatch_file[2]" = autoloaded; and continue
    string match -q "$__fish_data_dir/*" -- $__steplatch_file[1]; and continue
    builtin printf 'function %s\0%s\n' $__steplatch_name "$__steplatch_file[1]"
    builtin functions $__steplatch_name
    builtin printf '\0'
end
for __steplatch_name in (builtin set --names)
    string match -q '__steplatch*' -- $__steplatch_name; and continue
    contains -- $__steplatch_name history status pipestatus; and continue
    builtin printf 'variable %s\0' $__steplatch_name
    builtin set --show $__steplatch_name
    builtin printf '\0'
end
builtin printf 'end\0\0'
