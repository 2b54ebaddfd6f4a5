# Shell integration of steplatch for fish: marks (OSC 133) around the prompt, the command line and its output, and a way
# to ask for variables that leaves no trace. fish reads this after all of the user's own files. `builtin` passes their
# functions over; fish refuses functions with the other names.

if status is-interactive; and set -q STEPLATCH_SHELL_NONCE
    set -g __steplatch_key $STEPLATCH_SHELL_NONCE
    set -g __steplatch_files $STEPLATCH_SHELL_EXCHANGE

    function __steplatch_mark
        builtin printf '\e]133;%s;k=%s\a' $argv[1] $__steplatch_key
    end

    # The end of a command has a number that no earlier one had.
    set -g __steplatch_count 0
    function __steplatch_end
        # A command that emits the events of the shell is at no prompt. The first event is that of the first prompt.
        set -l __steplatch_running (builtin status current-command 2>/dev/null)
        set -q __steplatch_idle; or set -g __steplatch_idle "$__steplatch_running"
        test "$__steplatch_running" = "$__steplatch_idle"; or return
        set -g __steplatch_count (builtin math $__steplatch_count + 1)
        builtin printf '\e]133;D;%s;n=%s;k=%s\a\e]133;A;k=%s\a' "$argv[1]" $__steplatch_count $__steplatch_key $__steplatch_key
    end

    # Of a comment alone nothing runs.
    function __steplatch_started --on-event fish_preexec
        string match -qr '(?m)^\s*[^\s#]' -- $argv[1]; and __steplatch_mark C
    end

    # What fish prints to keep a line without an end comes between this and the prompt, and belongs to the prompt.
    function __steplatch_ended --on-event fish_postexec
        __steplatch_end $status
    end
    # Handlers run in the order of their definition: what the user's print is not output.
    for __steplatch_handler in (functions --handlers-type generic | string replace -rf '^fish_postexec ' '')
        test $__steplatch_handler = __steplatch_ended; or functions $__steplatch_handler | source
    end

    function __steplatch_prompt --on-event fish_prompt
        __steplatch_end $status
        __steplatch_wrap
    end

    # A line that is given up is followed by a prompt and by no other event.
    function __steplatch_cancelled --on-event fish_cancel
        __steplatch_end ""
    end

    # Puts the marks around the prompt, whoever has defined it anew. Its own first command must find $status and
    # $pipestatus as they are, so nothing runs before it.
    function __steplatch_wrap
        if not builtin functions -q fish_prompt
            # What fish itself shows when nobody has defined a prompt.
            function fish_prompt
                builtin printf '%s@%s %s> ' $USER $hostname $PWD
            end
        end
        string match -q '*__steplatch_their_prompt*' -- (builtin functions fish_prompt | string collect); and return
        builtin functions -e __steplatch_their_prompt
        builtin functions -c fish_prompt __steplatch_their_prompt
        function fish_prompt
            set -l __steplatch_shown (__steplatch_their_prompt | string collect --no-trim-newlines)
            __steplatch_mark A
            builtin printf '%s' $__steplatch_shown
            __steplatch_mark B
        end
    end
    __steplatch_wrap

    # Enters the line as the Enter key does, but says so when it is not a whole command, and takes it away then.
    function __steplatch_enter
        set -l __steplatch_line (builtin commandline -b | string collect)
        builtin commandline --is-valid
        set -l __steplatch_verdict $status
        if test $__steplatch_verdict = 0; or not string match -qr '\S' -- $__steplatch_line
            # An abbreviation is replaced only where the cursor is at its end.
            builtin commandline -a ' '
            builtin commandline -f end-of-buffer execute
        else if test $__steplatch_verdict = 2
            __steplatch_mark 'P;k=s'
            builtin commandline -f cancel-commandline
        else
            builtin printf '\n'
            __steplatch_mark R
            __steplatch_mark C
            # Only prints the complaint: `eval` would run the statements that are valid.
            set -l __steplatch_fish (status fish-path)
            $__steplatch_fish --no-config --no-execute -c $__steplatch_line
            __steplatch_end $status
            builtin commandline -f cancel-commandline
        end
    end
    for __steplatch_mode in default insert
        builtin bind -M $__steplatch_mode \e\cxe __steplatch_enter
    end
    # fish drops a tab of a text that is pasted.
    builtin bind -M paste \t "builtin commandline -i \t"

    function __steplatch_exchange --on-signal SIGUSR1
        if test -r $__steplatch_files.request
            builtin source $__steplatch_files.request >$__steplatch_files.answer 2>/dev/null
            __steplatch_mark V
        end
    end
end
set -e STEPLATCH_SHELL_NONCE
set -e STEPLATCH_SHELL_EXCHANGE
