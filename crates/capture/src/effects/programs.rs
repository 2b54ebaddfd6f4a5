//! Known programs: their reversible commands, and their irreversible ones. An unlisted command is unknown.

use super::Effect::{Irreversible, Reversible, Unknown};
use super::shell::{Argument, Judge, Stdin, has_substitution};
use super::{Effect, sql};

/// Programs that only show something, with any arguments.
const SHOWING: &str = "ls ll la dir cat bat head less more pwd which whereis type man info apropos history clear tree file wc stat \
    whoami id uname uptime df du ps printenv grep egrep fgrep rg zgrep zcat bzcat xzcat tail help cut column nl echo cmp comm diff";

/// Programs and words of shells that write no file which an argument names, and change nothing that cannot be undone.
const WRITING_NO_FILE: &str = "[ test true false : cd pushd popd dirs printf read exit logout set shift unset jobs fg bg wait sleep \
    let getopts ulimit umask shopt bind complete alias unalias disown suspend times break continue return seq yes date cal \
    arch nproc free lscpu lsblk lsusb lspci lsmod lsof pgrep pidof pstree top htop vmstat iostat ss netstat ping traceroute dig \
    nslookup host getent groups users who w last tty stty reset tput locale hexdump od strings nm objdump readelf size tr \
    rev tac fold fmt expand paste join basename dirname realpath readlink md5sum sha1sum sha256sum sha512sum b2sum cksum \
    base64 jq bc expr factor mkdir mkfifo mktemp touch sync go mypy pylint shellcheck flake8 whiptail dialog ssh-keyscan createdb \
    createuser pg_isready gdb lldb apropos gpg-agent pytest tox nox jest vitest mocha rspec \
    ctest ninja notify-send say tsort numfmt envsubst whatis bzgrep xzgrep zless";

/// Programs with reversible work, unless an argument names a file of the system: they may write it.
const REVERSIBLE: &str = "xxd uniq shuf yq gzip gunzip bzip2 bunzip2 xz unxz zstd unzstd zip csplit split \
    gcc g++ cc c++ clang clang++ rustc javac gofmt rustfmt ld ar as cmake meson autoconf automake autoreconf protoc tsc \
    eslint prettier ruff black isort pdflatex pandoc dot ffmpeg ffprobe convert identify ssh-keygen ssh-add ssh-copy-id openssl \
    initdb pg_dump pg_dumpall mysqldump strip virtualenv asciinema script rename";

/// Beginnings of options of compilers that read their value and do not write it.
const READ_OPTIONS: [&str; 6] = ["-I", "-L", "-D", "-isystem", "--sysroot", "-Wl"];

/// Parts of names of options, and of settings in arguments, whose value is a program or has one in it.
const NAMING_PROGRAMS: [&str; 24] = [
    "exec",
    "command",
    "plugin",
    "wrapper",
    "linker",
    "launcher",
    "compiler",
    "pager",
    "renderer",
    "rsh",
    "shell",
    "engine",
    "provider-path",
    "preprocess",
    "hook",
    "helper",
    "load-ext",
    "init-file",
    "askpass",
    "editor",
    "browser",
    "viewer",
    "vettool",
    "runner",
];

/// Parts of names of options that take something away, or work in spite of a reason against it.
const TAKING_AWAY: [&str; 12] = [
    "force",
    "prune",
    "delete",
    "remove",
    "overwrite",
    "replace",
    "migrate",
    "purge",
    "destroy",
    "clear",
    "vacuum",
    "abort",
];

/// Programs that take away what they work on, with any arguments.
const IRREVERSIBLE: &str = "rm unlink shred srm wipe dd mkfs mke2fs mkswap fdisk sfdisk cfdisk gdisk sgdisk parted wipefs blkdiscard truncate \
    shutdown reboot poweroff halt init telinit userdel deluser groupdel delgroup dropdb dropuser pg_restore lvremove vgremove pvremove \
    mdadm killall pkill kill xkill skill fstrim badblocks debugfs testdisk hdparm nvme sendmail mail mailx mutt wall write twine \
    git-filter-repo bfg pg_resetwal e2fsck fsck xfs_repair";

/// Commands of a program.
struct Commands {
    /// Its names.
    names: &'static str,
    /// Options that take a value, with which its first words may begin.
    valued: &'static str,
    /// Commands, words of several levels joined by `:`. `*` is any word. A blank in front: it needs no command.
    reversible: &'static str,
    irreversible: &'static str,
}

const COMMANDS: [Commands; 40] = [
    Commands {
        names: "npm pnpm yarn bun",
        valued: "--prefix --cwd -C --workspace -w --filter",
        reversible: "ls list help view info outdated why explain ci install i add init create up update upgrade link dedupe prune uninstall remove audit pack version config:get \
            config:list cache:* root bin fund doctor ping whoami",
        irreversible: "publish unpublish deprecate dist-tag access owner token team hook adduser logout",
    },
    Commands {
        names: "cargo",
        valued: "--manifest-path -C --config --color -Z",
        reversible: "help tree metadata search locate-project version pkgid verify-project build b check c test t bench doc d clippy fmt fix new init add remove rm update fetch install generate-lockfile \
            vendor clean nextest package deny audit expand machete llvm-cov watch",
        irreversible: "publish yank owner login logout",
    },
    Commands {
        names: "pip pip3 pipx",
        valued: "--python --log --proxy",
        reversible: "list show freeze check search help install download wheel uninstall cache inject upgrade",
        irreversible: "",
    },
    Commands {
        names: "poetry uv pdm hatch pipenv rye conda mamba",
        valued: "-C --directory --project -n -p",
        reversible: "list show env:info env:list info config install sync lock add remove update build init new check venv pip:install pip:list pip:sync tool:install create \
            self env:use",
        irreversible: "publish env:remove",
    },
    Commands {
        names: "docker podman nerdctl",
        valued: "--context -c --host -H --log-level -l --config",
        reversible: "ps images logs inspect container:ls container:list container:logs container:inspect image:ls image:inspect \
            volume:ls volume:inspect network:ls network:inspect compose:ps compose:logs compose:config compose:ls compose:images \
            compose:top context:ls context:show system:df system:info version info stats top port diff history search events build buildx:build buildx:ls pull create start cp tag login \
            logout load save import export commit pause unpause wait attach rename stop restart container:start container:stop \
            container:create image:build image:pull image:tag image:save volume:create network:create network:connect \
            compose:build compose:up compose:pull compose:start compose:stop compose:restart compose:create compose:version \
            compose:pause compose:unpause manifest:inspect",
        irreversible: "push rm rmi prune kill container:rm container:prune container:kill image:rm image:prune image:push volume:rm \
            volume:prune network:rm network:prune system:prune builder:prune buildx:prune compose:rm compose:kill compose:push \
            service:rm stack:rm secret:rm config:rm node:rm swarm:leave context:rm plugin:rm",
    },
    Commands {
        names: "kubectl oc",
        valued: "--namespace -n --context --kubeconfig --cluster --user -s --server",
        reversible: "get describe logs version explain api-resources api-versions top cluster-info auth:can-i diff config:view \
            config:get-contexts config:current-context rollout:status rollout:history events create expose run port-forward proxy wait uncordon rollout:pause \
            rollout:resume attach completion",
        irreversible: "apply delete replace drain scale patch edit cordon taint rollout:undo rollout:restart set autoscale label annotate",
    },
    Commands {
        names: "helm",
        valued: "--namespace -n --kube-context --kubeconfig",
        reversible: "list ls status get history search show template lint dependency dep repo:add repo:update repo:list version create package pull verify env",
        irreversible: "install upgrade uninstall delete rollback push repo:remove plugin:uninstall",
    },
    Commands {
        names: "terraform tofu terragrunt",
        valued: "",
        reversible: "show output providers graph state:list state:show workspace:list workspace:show version init validate fmt plan get workspace:new console test",
        irreversible: "apply destroy import taint untaint refresh state:rm state:mv state:push state:replace-provider force-unlock \
            workspace:delete",
    },
    Commands {
        names: "pulumi cdk serverless sls sam",
        valued: "--stack -s --cwd -C",
        reversible: "preview diff synth ls list stack:ls about new init login whoami build validate local package",
        irreversible: "up update deploy destroy remove delete refresh cancel import state:delete stack:rm",
    },
    Commands {
        names: "systemctl",
        valued: "-t --type -n --lines -H --host -M --machine",
        reversible: "status show cat list-units list-unit-files list-timers list-sockets list-dependencies list-jobs is-active is-enabled \
            is-failed help start enable reload daemon-reload unmask reset-failed preset link",
        irreversible: "stop restart try-restart reload-or-restart disable mask kill isolate poweroff reboot halt rescue emergency kexec \
            suspend hibernate revert clean set-default edit",
    },
    Commands {
        names: "service rc-service",
        valued: "",
        reversible: "*:status *:start *:reload",
        irreversible: "*:stop *:restart *:force-reload",
    },
    Commands {
        names: "gh glab hub",
        valued: "-R --repo",
        reversible: "pr:view pr:list pr:status pr:diff pr:checks issue:view issue:list issue:status repo:view repo:list run:list run:view \
            workflow:list workflow:view release:view release:list gist:view gist:list auth:status label:list search:* mr:view mr:list \
            status browse pr:checkout repo:clone run:watch run:download release:download auth:login alias:list config:get config:list \
            mr:checkout extension:list",
        irreversible: "pr:* issue:* repo:* run:* release:* gist:* label:* workflow:* secret:* variable:* cache:* ssh-key:* gpg-key:* \
            project:* mr:* ruleset:* codespace:* auth:logout",
    },
    Commands {
        names: "apt apt-get aptitude",
        valued: "-o -t --target-release -c",
        reversible: "list show search policy showsrc depends rdepends changelog install update download source build-dep check reinstall clean autoclean satisfy",
        irreversible: "remove purge autoremove autopurge",
    },
    Commands {
        names: "dnf yum zypper apk brew snap flatpak port pkg microdnf",
        valued: "",
        reversible: "list info search show provides repolist leaves deps config find install update check-update makecache download add tap services fetch",
        irreversible: "remove erase autoremove uninstall del delete purge rmi cleanup untap rm",
    },
    Commands {
        names: "rustup nvm pyenv rbenv asdf sdk mise volta fnm goenv",
        valued: "",
        reversible: "show which list ls current version versions update install default toolchain:install toolchain:list target:add target:list component:add component:list use \
            override:set local global shell init rehash",
        irreversible: "",
    },
    Commands {
        names: "aws",
        valued: "--profile --region --output --endpoint-url --query",
        reversible: "s3:ls sts:get-caller-identity configure:list help sso:login configure:get configure:sso ecr:get-login-password",
        irreversible: "s3:rm s3:rb s3:mv",
    },
    Commands {
        names: "gcloud az doctl heroku fly flyctl vercel netlify firebase eb ibmcloud oci linode-cli hcloud scw railway wrangler",
        valued: "--project --account --region --zone --subscription -a --app --resource-group",
        reversible: "apps:list ps logs status list info config:list config:get-value auth:list account:show login auth:login version help whoami dev",
        irreversible: "deploy destroy delete rm remove app:deploy run:deploy functions:deploy publish scale rollback promote purge reset",
    },
    Commands {
        names: "vagrant",
        valued: "",
        reversible: "status global-status box:list ssh-config port up reload resume suspend halt provision init validate",
        irreversible: "destroy box:remove snapshot:delete snapshot:restore",
    },
    Commands {
        names: "virsh lxc incus multipass limactl prlctl VBoxManage",
        valued: "-c --connect",
        reversible: "list info dominfo domstate net-list pool-list vol-list image:list start launch create stop shutdown suspend resume define",
        irreversible: "destroy undefine delete purge reset snapshot-delete vol-delete pool-delete net-destroy rm unregistervm restore",
    },
    Commands {
        names: "zfs",
        valued: "",
        reversible: "list get create snapshot mount unmount set clone hold bookmark",
        irreversible: "destroy rollback promote release inherit receive recv",
    },
    Commands {
        names: "zpool",
        valued: "",
        reversible: "list status get history iostat import export scrub",
        irreversible: "destroy remove labelclear detach replace offline split create add attach clear",
    },
    Commands {
        names: "btrfs",
        valued: "",
        reversible: "subvolume:list subvolume:show filesystem:show filesystem:df filesystem:usage device:stats scrub:status subvolume:create subvolume:snapshot scrub:start",
        irreversible: "subvolume:delete device:remove device:delete balance:start check rescue:* filesystem:resize",
    },
    Commands {
        names: "cryptsetup",
        valued: "",
        reversible: "status luksDump isLuks open close luksOpen luksClose",
        irreversible: "luksFormat erase luksErase luksKillSlot luksRemoveKey reencrypt format",
    },
    Commands {
        names: "ip",
        valued: "-n -f -family",
        reversible: "addr:show a:show address:show link:show route:show route:get neigh:show \
            rule:show addr:list a:list a:s address:list link:list link:s link:ls route:list r:show r:list neigh:list rule:list",
        irreversible: "addr:del addr:flush address:del address:flush link:del link:delete route:del route:flush neigh:flush rule:flush \
            netns:del a:del a:flush r:del r:flush",
    },
    Commands {
        names: "ufw nft firewall-cmd",
        valued: "",
        reversible: "status list app:list",
        irreversible: "disable reset delete flush destroy",
    },
    Commands { names: "crontab", valued: "-u", reversible: "-l", irreversible: "-r" },
    Commands {
        names: "redis-cli",
        valued: "-h -p -a -n -u --user --pass -r -i",
        reversible: "get keys info ping exists ttl type llen lrange smembers hget hgetall scan dbsize zrange strlen mget time setnx sadd lpush rpush publish config:get",
        irreversible: "flushall flushdb del unlink shutdown config:set config:resetstat expire rename hdel srem lpop rpop spop zrem \
            swapdb move restore script:flush",
    },
    Commands {
        names: "mysqladmin",
        valued: "-u -h -P --user --host --port",
        reversible: "status ping version processlist variables extended-status create",
        irreversible: "drop shutdown flush-hosts flush-logs flush-tables kill password refresh",
    },
    Commands {
        names: "gem bundle bundler composer mix hex nuget pod",
        valued: "",
        reversible: "list show search info outdated specification install update add init check config lock deps.get compile test dump-autoload require build",
        irreversible: "push yank owner publish hex.publish trunk",
    },
    Commands {
        names: "dotnet",
        valued: "",
        reversible: "--info --list-sdks --version sdk:check build test restore new add list clean format pack tool:install tool:restore",
        irreversible: "nuget:push nuget:delete publish",
    },
    Commands {
        names: "mvn gradle gradlew mvnw sbt lein ant bazel",
        valued: "-f --file -p -pl -s",
        reversible: "compile test package verify install clean build check assemble dependencies dependency:tree tasks validate \
            test-compile site javadoc help fetch query info",
        irreversible: "deploy publish release:perform release:prepare uploadArchives",
    },
    Commands {
        names: "vault consul etcdctl nomad",
        valued: "-address -namespace --endpoints",
        reversible: "read list status get kv:get kv:list member:list members operator:raft token:lookup login version kv:put",
        irreversible: "delete del destroy kv:delete kv:destroy kv:metadata token:revoke lease:revoke stop job:stop operator:seal leave",
    },
    Commands {
        names: "journalctl dmesg loginctl timedatectl hostnamectl localectl resolvectl networkctl",
        valued: "-u --unit -n --lines -S --since -U --until -p --priority -b --boot -o --output -t",
        reversible: " status list-sessions list-users show list query",
        irreversible: "terminate-session kill-session terminate-user",
    },
    Commands {
        names: "gpg gpg2",
        valued: "--homedir -u --local-user -r --recipient -o --output",
        reversible: "",
        irreversible: "",
    },
    Commands {
        names: "screen tmux zellij",
        valued: "-L -S -f -t -s -n -c",
        reversible: " ls list-sessions list-windows list-panes show-options display-message capture-pane attach attach-session a select-window select-pane detach-client rename-session rename-window -ls",
        irreversible: "kill-server kill-session kill-window kill-pane delete-session kill-all-sessions delete-all-sessions",
    },
    Commands {
        names: "ansible ansible-playbook ansible-galaxy ansible-vault",
        valued: "-i --inventory",
        reversible: "install collection:install role:install list view",
        irreversible: "",
    },
    Commands {
        names: "steplatch",
        valued: "",
        reversible: "runs:list runs:show runs:events terminal:list terminal:read workflow:list workflow:show workflow:history daemon:status \
            gates:list doctor hosts:list hosts:check workflow:test workflow:lint workflow:export daemon:restart",
        irreversible: "",
    },
    Commands {
        names: "ollama huggingface-cli dvc",
        valued: "",
        reversible: "list show ps status diff pull run serve create add fetch checkout download login",
        irreversible: "rm push delete gc remove upload",
    },
    Commands { names: "sysctl", valued: "", reversible: "-a", irreversible: "" },
    Commands { names: "swapoff swapon losetup", valued: "", reversible: "*", irreversible: "" },
];

/// Beginnings of words which mean that a program of the project takes something away, or gives something out of hand.
const TELLING: [&str; 36] = [
    "delet",
    "destr",
    "drop",
    "purg",
    "wip",
    "eras",
    "nuk",
    "reset",
    "uninstall",
    "remov",
    "prun",
    "rollback",
    "teardown",
    "terminat",
    "kill",
    "shutdown",
    "reboot",
    "format",
    "migrat",
    "upload",
    "push",
    "restor",
    "truncat",
    "overwrit",
    "revok",
    "flush",
    "deploy",
    "publish",
    "undeploy",
    "decommission",
    "rm",
    "force",
    "evict",
    "rotate",
    "send",
    "unpublish",
];

/// Words that mean so for a target or a script alone: as an argument they often name a kind of build.
const TELLING_NAMES: [&str; 1] = ["releas"];

/// Variables that change the words, the time or the amount of output, and no program, file or place that a program works with. Any other
/// one may: of a list of those that do, one is always missing.
const HARMLESS_VARIABLES: &str = "LANG LANGUAGE TZ TERM COLORTERM COLUMNS LINES NO_COLOR CLICOLOR CLICOLOR_FORCE FORCE_COLOR CI DEBUG VERBOSE QUIET \
    RUST_LOG RUST_BACKTRACE CARGO_TERM_COLOR CARGO_INCREMENTAL CARGO_NET_OFFLINE NODE_ENV RAILS_ENV RACK_ENV APP_ENV FLASK_ENV FLASK_DEBUG DJANGO_DEBUG \
    PYTHONUNBUFFERED PYTHONDONTWRITEBYTECODE PYTHONHASHSEED PYTHONIOENCODING PYTHONUTF8 DEBIAN_FRONTEND NEEDRESTART_MODE CGO_ENABLED GOOS GOARCH \
    GOMAXPROCS OMP_NUM_THREADS MAKELEVEL POSIXLY_CORRECT TIMEFORMAT HISTCONTROL HISTSIZE USER LOGNAME HOSTNAME PORT VERSION SEED JOBS";

/// Variables that a shell acts on, or that are exported everywhere.
const KEPT_BY_SHELLS: &str = "PATH HOME LD_PRELOAD LD_AUDIT LD_LIBRARY_PATH BASH_ENV ENV PROMPT_COMMAND PS0 PS1 PS2 PS4 GIT_SSH GIT_SSH_COMMAND \
    GIT_EDITOR GIT_PAGER GIT_EXTERNAL_DIFF GIT_ASKPASS GIT_PROXY_COMMAND PAGER EDITOR VISUAL MANPAGER LESSOPEN PYTHONSTARTUP PYTHONPATH PERL5OPT \
    PERL5LIB NODE_OPTIONS RUSTC_WRAPPER RUSTC CC CXX MAKEFLAGS SHELL IFS BROWSER SSH_ASKPASS RUSTFLAGS GOFLAGS DOCKER_HOST KUBECONFIG GIT_DIR \
    CDPATH FIGNORE GLOBIGNORE FPATH ZDOTDIR HISTFILE";

/// Variables whose value is a program with its arguments.
const NAMING_VARIABLES: &str = "GIT_SSH GIT_SSH_COMMAND GIT_EDITOR GIT_PAGER GIT_EXTERNAL_DIFF GIT_ASKPASS GIT_PROXY_COMMAND PAGER EDITOR VISUAL MANPAGER \
    RUSTC_WRAPPER RUSTC CC CXX SHELL BROWSER SSH_ASKPASS PROMPT_COMMAND";

/// Programs that run the one behind them: their names, their options with a value, and their options without one.
const WRAPPERS: [(&str, &str, &str); 21] = [
    (
        "sudo doas",
        "-u -g -C -h -p -r -t -U -D -R -T --user --group --chdir --host --prompt --role --type --chroot --command-timeout --close-from",
        "-A -b -B -E -H -k -n -P -S -i -s -v -l -K -N -L --askpass --background --set-home --preserve-env --non-interactive --login --shell --stdin --reset-timestamp",
    ),
    ("env", "-u -C --unset --chdir", "-i -0 -v - --ignore-environment --null --debug"),
    ("nice", "-n --adjustment", ""),
    ("ionice", "-c -n -p --class --classdata", "-t --ignore"),
    ("nohup setsid", "", "-c -f -w --ctty --fork --wait"),
    ("time", "-o -f --output --format", "-p -v -a --portability --verbose --append"),
    ("timeout gtimeout", "-s -k --signal --kill-after", "-v --preserve-status --foreground --verbose"),
    ("stdbuf", "-i -o -e --input --output --error", ""),
    ("command builtin", "", "-p"),
    ("exec", "-a", "-c -l"),
    ("chrt", "-T -P -D", "-b -f -i -o -r -d -m -a"),
    ("taskset", "", "-a -c --all-tasks --cpu-list"),
    ("unbuffer rlwrap winpty catchsegv fakeroot caffeinate dbus-run-session xvfb-run", "", "-p -a -i -s -d"),
    (
        "strace ltrace",
        "-e -o -s -p -P -u -E -a -I -O -S -X",
        "-f -ff -c -C -d -i -k -q -qq -r -t -tt -T -v -x -y -yy -D -w",
    ),
    ("valgrind perf-record hyperfine", "", ""),
    ("chroot", "--userspec --groups", "--skip-chdir"),
    (
        "unshare nsenter",
        "-S -G -R -w -t --target --map-user --root --wd",
        "-m -u -i -n -p -U -C -T -f -r -c -a --mount --uts --ipc --net --pid --user --fork --map-root-user --mount-proc --all",
    ),
    (
        "flock",
        "-w -E --timeout --conflict-exit-code",
        "-s -x -n -o -u -v -F --shared --exclusive --nonblock --close --verbose",
    ),
    (
        "systemd-run systemd-inhibit",
        "-p -u -H -M --unit --property --description --slice --uid --gid --what --who --why --mode",
        "-t -P -q -d -G -r -S --user --scope --wait --pty --pipe --quiet --collect --no-block",
    ),
    ("busybox toybox", "", ""),
    (
        "watch",
        "-n --interval",
        "-d -t -b -e -g -c -x --differences --no-title --beep --errexit --chgexit --color --exec",
    ),
];

/// Shells, and interpreters of other languages.
const SHELLS: &str = "sh bash dash zsh ksh mksh ash fish rbash";
const INTERPRETERS: &str = "python python2 python3 pypy pypy3 perl ruby node nodejs deno php lua luajit tclsh wish expect Rscript julia \
    groovy scala elixir swift osascript pwsh guile java ipython bpython ts-node tsx";

/// Clients of databases.
const SQL_CLIENTS: &str =
    "psql mysql mariadb sqlite3 sqlite duckdb clickhouse-client cqlsh sqlcmd usql pgcli mycli litecli";

/// Directories of the system, and files that programs run or trust.
const OF_SYSTEM: &str = "/etc /usr /bin /sbin /lib /lib64 /boot /dev /sys /proc /var /opt /root /srv";

/// Returns whether a word begins as one of the list. A beginning of two letters is a word of its own.
pub(crate) fn has_beginning(list: &[&str], word: &str) -> bool {
    list.iter().any(|beginning| word.starts_with(beginning) && (beginning.len() > 2 || word == *beginning))
}

pub(super) fn has_word(list: &str, word: &str) -> bool {
    list.split_whitespace().any(|one| one == word)
}

/// Options with their values, and the words behind them.
type Options<'w> = (Vec<(&'w str, Option<&'w Argument>)>, &'w [Argument]);

/// Reads the options that words begin with. `None` for an unknown option: the words behind it may be its value.
fn options<'w>(words: &'w [Argument], valued: &str, plain: &str) -> Option<Options<'w>> {
    let (mut found, mut at) = (Vec::new(), 0);
    while let Some(word) = words.get(at) {
        let Some(text) = word.fixed() else { break };
        if text == "--" {
            at += 1;
            break;
        }
        if !text.starts_with('-') || text == "-" && !has_word(plain, "-") {
            break;
        }
        at += 1;
        let name = text.split_once('=').filter(|_| text.starts_with("--")).map_or(text, |(name, _)| name);
        if name != text {
            found.push((name, None));
        } else if has_word(valued, text) {
            found.push((text, words.get(at)));
            at += 1;
        } else if has_word(plain, text) {
            found.push((text, None));
        } else if text.starts_with("--") {
            return None;
        } else {
            // Letters of short options stand together, and the last one may have a value.
            for (index, letter) in text.char_indices().skip(1) {
                let option = format!("-{letter}");
                let rest = &text[index + letter.len_utf8()..];
                if has_word(valued, &option) {
                    found.push((
                        &text[index..index + letter.len_utf8()],
                        if rest.is_empty() { words.get(at) } else { None },
                    ));
                    at += usize::from(rest.is_empty());
                    break;
                }
                if !has_word(plain, &option) {
                    return None;
                }
                found.push((&text[index..index + letter.len_utf8()], None));
            }
        }
    }
    Some((found, words.get(at..).unwrap_or_default()))
}

/// Returns whether a word is one of these options, or has the letter of a short one among others.
fn is_option(word: &Argument, wanted: &str) -> bool {
    let Some(text) = word.fixed() else { return false };
    wanted.split_whitespace().any(|option| {
        let letter = option.strip_prefix('-').filter(|letter| letter.len() == 1);
        let together =
            letter.is_some_and(|letter| text.starts_with('-') && !text.starts_with("--") && text.contains(letter));
        text == option
            || together
            || (option.starts_with("--") && text.strip_prefix(option).is_some_and(|rest| rest.starts_with('=')))
    })
}

fn has_option(words: &[Argument], wanted: &str) -> bool {
    words.iter().take_while(|word| word.fixed() != Some("--")).any(|word| is_option(word, wanted))
}

/// Returns whether the value of a variable is a number or a switch, which names nothing.
fn is_switch(value: &str) -> bool {
    has_word("true false yes no on off", &value.to_lowercase())
        || value.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.')
}

/// Returns whether an option, or a setting as `key=value`, has one of these parts in its name.
fn has_part(word: &Argument, parts: &[&str]) -> bool {
    let text = word.text.to_lowercase();
    let is_option = text.starts_with(['-', '+']);
    let name = text.split_once('=').map_or(text.as_str(), |(name, _)| name);
    let is_negated = name.starts_with("--no-") || name.starts_with("--ignore-") || name.starts_with("--without-");
    (is_option || name.len() < text.len()) && !is_negated && parts.iter().any(|part| name.contains(part))
}

/// Returns whether arguments name a program that is run, or a file with arguments (`@file`).
fn names_program(arguments: &[Argument]) -> bool {
    arguments.iter().any(|one| has_part(one, &NAMING_PROGRAMS) || one.text.starts_with('@'))
}

fn join_words(words: &[Argument]) -> String {
    words.iter().map(|word| word.text.as_str()).collect::<Vec<_>>().join(" ")
}

impl Judge {
    /// Judges variables that a command gets, if they are exported, or that the shell keeps.
    pub(super) fn variables(&mut self, all: &[(String, Argument)], is_exported: bool) {
        for (name, value) in all {
            // The shell may evaluate a quoted command substitution later: in a prompt, in arithmetic, in a subscript.
            if value.is_fixed && has_substitution(&value.text) {
                self.note_effect(Unknown, &format!("{name}={}", value.text));
            }
            let is_switch = value.fixed().is_some_and(is_switch);
            if has_word(HARMLESS_VARIABLES, name)
                || name.starts_with("LC_")
                || is_switch && !has_word(KEPT_BY_SHELLS, name)
            {
                continue;
            }
            match value.fixed() {
                Some(program)
                    if name == "SHELL" && has_word(SHELLS, program.rsplit('/').next().unwrap_or_default()) =>
                {
                    self.note_effect(Reversible, program);
                }
                Some(program)
                    if has_word(NAMING_VARIABLES, name) && !program.is_empty() && !has_word(SHELLS, program) =>
                {
                    // Arguments of it may be code.
                    if program.contains(char::is_whitespace) {
                        self.note_effect(Unknown, &format!("{name}={program}"));
                    }
                    self.give(program.to_owned());
                }
                _ if !is_exported && !has_word(KEPT_BY_SHELLS, name) => {}
                _ => self.note_effect(Unknown, &format!("{name}={}", value.text)),
            }
        }
    }

    /// Judges an overwritten file.
    pub(super) fn writes(&mut self, file: &Argument) {
        self.appends(file);
    }

    /// Judges a changed file: undoing a change of a file of the system is not easy, and an unknown file may be one.
    pub(super) fn appends(&mut self, file: &Argument) {
        let path = file.text.as_str();
        let is_harmless = has_word("/dev/null /dev/stdout /dev/stderr /dev/tty", path) || path.starts_with("/dev/fd/");
        if is_harmless {
            return;
        }
        let is_within = |directory: &str| {
            path == directory || path.strip_prefix(directory).is_some_and(|rest| rest.starts_with('/'))
        };
        let is_hidden_at_home = path.starts_with("~/.") || path.contains("/.ssh/") || path.contains("/.git/");
        let is_of_other_home = path.starts_with('~') && path != "~" && !path.starts_with("~/");
        if is_of_other_home || !file.is_fixed && !path.starts_with("./") {
            self.note_effect(Unknown, path);
        } else if path == "/"
            || path == "~"
            || path.contains("/../")
            || OF_SYSTEM.split_whitespace().any(is_within)
            || is_hidden_at_home
        {
            self.note_effect(Irreversible, path);
        } else {
            self.note_effect(Reversible, path);
        }
    }

    /// Judges a command: a program and its arguments.
    pub(super) fn command(&mut self, words: &[Argument], stdin: &Stdin) {
        let Some((first, arguments)) = words.split_first() else { return };
        let all = join_words(words);
        let Some(program) = first.fixed() else {
            // Some variables hold a program that runs another, as in `$SUDO rm`.
            self.note_effect(Unknown, &all);
            if arguments.first().is_some_and(|word| word.is_fixed) {
                let known = self.programs.len();
                self.command(arguments, stdin);
                self.programs.truncate(known);
            }
            return;
        };
        if self.is_function(program) {
            return self.note_effect(Reversible, &all);
        }
        let (directory, name) = program.rsplit_once('/').unwrap_or(("", program));
        let is_of_system =
            has_word("/bin /usr/bin /usr/local/bin /sbin /usr/sbin /usr/local/sbin /opt/homebrew/bin", directory);
        if program.contains('/') && !is_of_system {
            if matches!(name, "gradlew" | "mvnw") {
                return self.known(name, arguments, stdin, &all);
            }
            return self.own_program(name, program, arguments);
        }
        self.ran(name);
        match arguments {
            [only] if has_word("--help --version -V", &only.text) => return self.note_effect(Reversible, &all),
            [.., last] if last.fixed() == Some("--help") && !self.is_wrapper(name) => {
                return self.note_effect(Reversible, &all);
            }
            _ => {}
        }
        if let Some((_, valued, plain)) = WRAPPERS.iter().find(|(names, ..)| has_word(names, name)) {
            return self.wrapper(name, arguments, (valued, plain), (&all, stdin));
        }
        match name {
            _ if has_word(SHELLS, name) => self.shell(arguments, stdin, &all),
            _ if is_interpreter(name) => self.interpreter(name, arguments, stdin, &all),
            _ if has_word(SQL_CLIENTS, name) => self.sql_client(name, arguments, stdin, &all),
            "eval" => self.joined(arguments, &all),
            "source" | "." => self.script(arguments, &all),
            "trap" => match arguments {
                [] => self.note_effect(Reversible, &all),
                [code, ..] => self.code(code, &all),
            },
            "su" | "runuser" => self.other_user(arguments, stdin, &all),
            "ssh" | "mosh" => self.other_machine(arguments, stdin, &all),
            "xargs" | "parallel" => self.each_line(arguments, &all),
            "find" | "fd" | "fdfind" => self.find(arguments, stdin, &all),
            "git" => self.git(arguments, &all),
            "make" | "gmake" | "just" | "task" | "rake" | "invoke" | "doit" => self.targets(name, arguments, &all),
            "npx" | "bunx" | "uvx" | "pnpx" => self.note_effect(Unknown, &all),
            "curl" | "wget" | "http" | "https" | "xh" => self.request(name, arguments, &all),
            "rsync" | "scp" | "sftp" => self.copies_elsewhere(name, arguments, &all),
            "tar" | "bsdtar" => self.tar(arguments, &all),
            "sed" | "gsed" => self.sed(arguments, &all),
            "awk" | "gawk" | "mawk" => self.awk(arguments, &all),
            "kill"
                if arguments.iter().all(|one| {
                    one.text.starts_with('%') || one.text == "$!" || is_option(one, "-s -n -TERM -INT -0 -l")
                }) =>
            {
                self.note_effect(Reversible, &all);
            }
            "rmdir" => self.note_effect(Reversible, &all),
            "rm" | "unlink" => self.note_effect(Irreversible, &all),
            "cp" | "mv" | "install" | "ln" | "tee" | "patch" | "sort" | "unzip" | "7z" | "chmod" | "chown"
            | "chgrp" => {
                self.file_tool(name, arguments, &all);
            }
            "vi" | "vim" | "nvim" | "nano" | "emacs" | "ed" | "ex" | "view" | "code" | "hx" | "micro" => {
                self.editor(arguments, stdin, &all);
            }
            "hostname" if arguments.is_empty() => self.note_effect(Reversible, &all),
            "date" if has_option(arguments, "-s --set") => self.note_effect(Unknown, &all),
            "passwd" | "chpasswd" => self.note_effect(Unknown, &all),
            "mkfs" => self.note_effect(Irreversible, &all),
            _ if name.starts_with("mkfs.") => self.note_effect(Irreversible, &all),
            "iptables" | "ip6tables" => self.firewall(arguments, &all),
            _ if has_word(SHOWING, name) => self.showing(name, arguments, &all),
            _ if has_word(IRREVERSIBLE, name) => self.note_effect(Irreversible, &all),
            _ if has_word(WRITING_NO_FILE, name) => self.reversible(name, arguments, stdin, &all),
            _ if has_word(REVERSIBLE, name) => {
                self.may_write(arguments, &all);
                self.reversible(name, arguments, stdin, &all);
            }
            _ => self.known(name, arguments, stdin, &all),
        }
    }

    /// Judges a program that may write any file which an argument names, also in an option: the effect on one of the
    /// system is unknown.
    fn may_write(&mut self, arguments: &[Argument], all: &str) {
        let is_read = |one: &&Argument| READ_OPTIONS.iter().any(|option| one.text.starts_with(option));
        for one in arguments.iter().filter(|one| !is_read(one)) {
            let begin = if one.text.starts_with('-') { one.text.find(['/', '~']) } else { Some(0) };
            let Some(path) = begin.map(|begin| &one.text[begin..]) else { continue };
            let mut judge = Self::default();
            judge.appends(&Argument { text: path.to_owned(), is_fixed: true });
            if judge.judgement.effect > Reversible {
                self.note_effect(Unknown, all);
            }
        }
    }

    fn ran(&mut self, name: &str) {
        let is_name = |sign: char| sign.is_alphanumeric() || "-_.+".contains(sign);
        let is_program = name.starts_with(char::is_alphanumeric) && name.chars().all(is_name);
        if is_program && !has_word(OF_SHELLS, name) && !self.programs.iter().any(|known| known == name) {
            self.programs.push(name.to_owned());
        }
    }

    fn is_wrapper(&self, name: &str) -> bool {
        has_word(SHELLS, name)
            || WRAPPERS.iter().any(|(names, ..)| has_word(names, name))
            || has_word("ssh xargs find su docker podman kubectl", name)
    }

    /// Judges a program that only shows something, unless it writes a file.
    fn showing(&mut self, name: &str, arguments: &[Argument], all: &str) {
        let runs = match name {
            "rg" => has_option(arguments, "--pre --hostname-bin"),
            "man" | "less" | "more" | "bat" => {
                has_option(arguments, "-P -H --pager --html --use-preprocessor")
                    || arguments.iter().any(|one| one.text.starts_with('+'))
            }
            "history" => has_option(arguments, "-c -d -w -r -a"),
            _ => false,
        };
        self.note_effect(if runs { Unknown } else { Reversible }, all);
    }

    /// Judges a program whose work can be undone, unless an option has it run or write something else.
    fn reversible(&mut self, name: &str, arguments: &[Argument], stdin: &Stdin, all: &str) {
        // The words of these are their own.
        let has_options =
            !has_word("[ test let alias unalias shopt ulimit set say notify-send seq printf yes whiptail dialog", name);
        if has_options && (names_program(arguments) || arguments.iter().any(|one| has_part(one, &TAKING_AWAY))) {
            self.note_effect(Unknown, all);
        }
        match name {
            "alias" => {
                for one in arguments {
                    match one.fixed().map(|text| text.split_once('=')) {
                        Some(Some((_, code))) => self.give(code.to_owned()),
                        Some(None) => {}
                        None => self.note_effect(Unknown, all),
                    }
                }
            }
            "bind" if !arguments.is_empty() => return self.note_effect(Unknown, all),
            "complete" if has_option(arguments, "-C -F -W -P -S -X") => return self.note_effect(Unknown, all),
            "ss" if has_option(arguments, "-K --kill") => return self.note_effect(Unknown, all),
            "zip" if has_option(arguments, "-T -TT -m -d --test --unzip-command --move") => {
                return self.note_effect(Unknown, all);
            }
            "split" | "pandoc" if arguments.iter().any(|one| has_part(one, &["filter"]) || one.text == "-F") => {
                return self.note_effect(Unknown, all);
            }
            "zstd" | "unzstd" if has_option(arguments, "--rm") => return self.note_effect(Unknown, all),
            "asciinema" if has_option(arguments, "-c") => return self.note_effect(Unknown, all),
            "ssh-keygen" if has_option(arguments, "-D -w -R") => return self.note_effect(Unknown, all),
            "gcc" | "g++" | "cc" | "c++" | "clang" | "clang++"
                if arguments.iter().any(|one| one.text.starts_with("-B") || one.text.starts_with("-specs")) =>
            {
                return self.note_effect(Unknown, all);
            }
            // The shell evaluates a subscript in quotes, too.
            "let" | "test" | "[" | "unset" | "read" | "wait" | "printf" | "getopts"
                if arguments.iter().any(|one| has_substitution(&one.text))
                    && (name != "printf" || has_option(arguments, "-v")) =>
            {
                return self.note_effect(Unknown, all);
            }
            "script" => return self.other_user(arguments, stdin, all),
            "ssh-add" if has_option(arguments, "-d -D -s -e") => return self.note_effect(Unknown, all),
            "go" => return self.go(arguments, all),
            "gdb" | "lldb" if !matches!(stdin, Stdin::Terminal) => return self.note_effect(Unknown, all),
            "gdb" | "lldb" if has_option(arguments, "-x -ex -p -batch -o -s --command --eval-command --pid") => {
                return self.note_effect(Unknown, all);
            }
            "mkfifo" | "mkdir" | "touch" => {
                arguments.iter().filter(|one| !one.text.starts_with('-')).for_each(|one| self.makes(one));
            }
            "openssl" if arguments.first().is_some_and(|one| has_word("engine provider", &one.text)) => {
                return self.note_effect(Unknown, all);
            }
            "openssl"
                if arguments.first().is_some_and(|one| has_word("rand genrsa genpkey req x509 enc", &one.text)) =>
            {
                let mut out = arguments.windows(2).filter(|pair| pair[0].text == "-out").map(|pair| pair[1].clone());
                if let Some(file) = out.next() {
                    self.writes(&file);
                }
            }
            "rename" | "yq" if has_option(arguments, "-i --in-place -f --force") => {
                return self.note_effect(Unknown, all);
            }
            "ninja" | "ctest" => return self.targets(name, arguments, all),
            "pytest" | "tox" | "nox" | "jest" | "vitest" | "mocha" | "rspec" => return self.unseen(all),
            "cmake" if has_option(arguments, "-E -P") => return self.note_effect(Unknown, all),
            _ => {}
        }
        self.note_effect(Reversible, all);
    }

    /// Judges a file that the command makes where it is not there yet.
    fn makes(&mut self, file: &Argument) {
        let is_hidden = file.text.contains("/.ssh");
        self.note_effect(if is_hidden { Unknown } else { Reversible }, &file.text);
    }

    /// Judges a program with listed commands.
    fn known(&mut self, name: &str, arguments: &[Argument], stdin: &Stdin, all: &str) {
        let Some(known) = COMMANDS.iter().find(|known| has_word(known.names, name)) else {
            return self.note_effect(Unknown, all);
        };
        let mut rest = arguments;
        let mut words: Vec<&Argument> = Vec::new();
        while let Some((first, behind)) = rest.split_first() {
            let is_switch = first.fixed().is_some_and(|text| text.starts_with('-'));
            rest = behind;
            if is_switch && has_word(known.valued, &first.text) && !rest.is_empty() {
                rest = &rest[1..];
            } else if !is_switch
                || words.is_empty()
                    && (has_word(known.reversible, &first.text) || has_word(known.irreversible, &first.text))
            {
                words.push(first);
            }
        }
        let is_dry = has_option(arguments, "--dry-run --dryrun --simulate --just-print")
            || (name == "cargo" && has_option(arguments, "-n"))
            || (name.starts_with("apt") && has_option(arguments, "-s"));
        // Behind two dashes are the arguments of another program.
        let own: Vec<Argument> = arguments.iter().take_while(|one| one.text != "--").cloned().collect();
        let is_forced = own.iter().any(|one| has_part(one, &TAKING_AWAY)) && !is_dry;
        if names_program(&own) || is_forced || name == "cargo" && has_option(&own, "--config -Z") {
            self.note_effect(Unknown, all);
        }
        let is_of_multiplexer = has_word("screen tmux zellij", name);
        if is_of_multiplexer && (has_option(&own, "-f -c") || arguments.iter().any(|one| one.text.contains("#("))) {
            self.note_effect(Unknown, all);
        }
        if name == "dmesg" && has_option(&own, "-C -c --clear --read-clear") {
            return self.note_effect(Irreversible, all);
        }
        let Some(sub) = words.first() else {
            let is_fine = known.reversible.starts_with(' ') || arguments.is_empty();
            return self.note_effect(if is_fine { Reversible } else { Unknown }, all);
        };
        let Some(sub) = sub.fixed() else { return self.note_effect(Unknown, all) };
        match (name, sub) {
            ("steplatch", "terminal") if words.get(1).is_some_and(|word| word.text == "open") => {
                return match arguments.iter().position(|one| one.text == "--") {
                    Some(at) => self.command(&arguments[at + 1..], stdin),
                    None => self.note_effect(Reversible, all),
                };
            }
            ("docker" | "podman" | "nerdctl", "cp") => {
                if let Some(target) = words.last().filter(|target| !target.text.contains(':')) {
                    self.writes(&(*target).clone());
                }
            }
            ("docker" | "podman" | "nerdctl", _) if self.container(arguments, stdin, all) => return,
            ("ip", _) if words.len() == 1 => return self.note_effect(Reversible, all),
            ("kubectl" | "oc", "run") if !arguments.iter().any(|one| one.text == "--") => {}
            ("kubectl" | "oc", "exec" | "debug" | "run") => return self.behind_dashes(arguments, stdin, all),
            ("kubectl" | "oc", "cp") => return self.note_effect(Unknown, all),
            (
                "npm" | "pnpm" | "yarn" | "bun",
                "run" | "run-script" | "test" | "t" | "start" | "stop" | "restart" | "build" | "dev" | "lint",
            ) => {
                let target = if sub.starts_with("run") { words.get(1).copied() } else { words.first().copied() };
                return self.own_target(name, target, arguments, all);
            }
            ("npm" | "pnpm" | "yarn" | "bun", "exec" | "x" | "dlx") => return self.note_effect(Unknown, all),
            ("cargo", "run" | "r" | "xtask" | "bench") => {
                return self.own_target(name, words.get(1).copied().or(words.first().copied()), arguments, all);
            }
            (
                "poetry" | "uv" | "pdm" | "pipenv" | "rye" | "conda" | "mamba" | "hatch" | "bundle" | "mise",
                "run" | "exec",
            ) => {
                let at = arguments.iter().position(|one| one.text == sub).map_or(arguments.len(), |at| at + 1);
                let inner = &arguments[at..];
                return match options(
                    inner,
                    "--python --with --project --directory -n -p --name --prefix",
                    "--no-sync --frozen --locked --isolated -q",
                ) {
                    Some((_, inner)) if !inner.is_empty() => self.command(inner, stdin),
                    _ => self.note_effect(Unknown, all),
                };
            }
            ("ansible-playbook", _) => {
                return self.note_effect(
                    if has_option(arguments, "--check --syntax-check --list-tasks --list-hosts -C") {
                        Reversible
                    } else {
                        Unknown
                    },
                    all,
                );
            }
            ("sysctl", text) => {
                return self.note_effect(
                    if text.contains('=') || has_option(arguments, "-w -p") { Unknown } else { Reversible },
                    all,
                );
            }
            ("pip" | "pip3" | "uv", _) if has_option(arguments, "-t --target --root --prefix") => {
                return self.note_effect(Unknown, all);
            }
            // A minus sign behind its name has a package removed.
            ("apt" | "apt-get" | "aptitude", "install" | "satisfy")
                if words.iter().skip(1).any(|one| one.text.ends_with(['-', '_'])) =>
            {
                return self.note_effect(Unknown, all);
            }
            ("vagrant", "ssh") => {
                let code = arguments
                    .windows(2)
                    .find(|pair| has_word("-c --command", &pair[0].text))
                    .map(|pair| pair[1].clone());
                return match code {
                    Some(code) => self.code(&code, all),
                    None => self.note_effect(Reversible, all),
                };
            }
            (
                "tmux" | "screen" | "zellij",
                "new" | "new-session" | "new-window" | "split-window" | "send-keys" | "run-shell" | "run"
                | "respawn-pane",
            ) => {
                let is_plain = arguments.iter().all(|one| {
                    has_word("new new-session new-window split-window -d -s -n -h -v", &one.text)
                        || !one.text.contains(' ') && sub == "new" && arguments.len() <= 3
                });
                return self.note_effect(if is_plain { Reversible } else { Unknown }, all);
            }
            ("systemctl", "start" | "enable")
                if words.len() > 1
                    && words[1..].iter().any(|unit| {
                        let unit = unit.text.trim_end_matches(".target").trim_end_matches(".service");
                        has_word(
                            "poweroff reboot halt rescue emergency shutdown kexec suspend hibernate sleep exit",
                            unit,
                        )
                    }) =>
            {
                return self.note_effect(Irreversible, all);
            }
            _ => {}
        }
        let fixed: Vec<&str> = words.iter().map_while(|word| word.fixed()).take(3).collect();
        let is_in = |list: &str| {
            let mut keys = (1..=fixed.len()).map(|length| fixed[..length].join(":")).collect::<Vec<_>>();
            keys.extend(fixed.first().map(|first| format!("{first}:*")));
            keys.extend(fixed.get(1).map(|second| format!("*:{second}")));
            keys.push("*".to_owned());
            keys.iter().filter(|key| has_word(list, key)).map(|key| key.replace('*', "").len()).max()
        };
        // The longest words are the most exact: `compose up` is not `up`.
        let lists = [(known.irreversible, Irreversible), (known.reversible, Reversible)];
        let found = lists.into_iter().filter_map(|(list, effect)| is_in(list).map(|length| (length, effect)));
        let best = found.reduce(|best, one| if one.0 > best.0 { one } else { best });
        let effect = match best {
            Some((_, effect)) => effect,
            None if name == "aws" => cloud(fixed.get(1).copied().unwrap_or_default()),
            None if has_word("gcloud az doctl heroku fly flyctl hcloud oci scw linode-cli ibmcloud", name) => {
                fixed.iter().map(|word| cloud(word)).max().unwrap_or(Unknown)
            }
            None => Unknown,
        };
        let effect = match effect {
            Irreversible | Unknown if is_dry => Reversible,
            Reversible
                if name == "docker"
                    && fixed.starts_with(&["compose"])
                    && has_option(arguments, "--remove-orphans --force-recreate -V --renew-anon-volumes") =>
            {
                Unknown
            }
            effect => effect,
        };
        let destroys = has_option(
            arguments,
            "-C -c --clear --read-clear --delete --purge --destroy --rotate --vacuum-size --vacuum-time --vacuum-files --flush --volumes --rmi -v",
        ) && (has_word("journalctl dmesg", name) || fixed.starts_with(&["compose", "down"]));
        self.note_effect(
            if destroys && !(name == "journalctl" && has_option(arguments, "-v")) { Irreversible } else { effect },
            all,
        );
    }

    /// Judges a command in a container. Returns whether it was one.
    fn container(&mut self, arguments: &[Argument], stdin: &Stdin, all: &str) -> bool {
        const VALUED: &str = "-v -p -e -u -w -m -h -l -c -a --name --network --net --env --volume --workdir --user --mount --publish --env-file --label \
            --hostname --cpus --memory --platform --restart --gpus --add-host --device --ulimit --log-driver --pull --shm-size --cap-add \
            --cap-drop --security-opt --tmpfs --dns --expose --link --pid --ipc --runtime --stop-signal --detach-keys --index --entrypoint --cidfile";
        const PLAIN: &str = "-i -t -d -P -q --rm --init --privileged --read-only --interactive --tty --detach --no-healthcheck --publish-all -T --no-deps --build";
        let Some(at) = arguments.iter().position(|one| has_word("exec run", &one.text)) else { return false };
        if !arguments[..at].iter().all(|one| {
            one.is_fixed && (has_word("container compose", &one.text) || one.text.starts_with('-') || at > 0)
        }) {
            return false;
        }
        let before_is_other = arguments[..at].iter().any(|one| {
            !one.text.starts_with('-')
                && !has_word("container compose", &one.text)
                && !one.text.contains(['/', '.', ':'])
        });
        if before_is_other {
            return false;
        }
        let Some((found, rest)) = options(&arguments[at + 1..], VALUED, PLAIN) else {
            self.note_effect(Unknown, all);
            return true;
        };
        // A container that has the machine is no container.
        let reaches_out = arguments.iter().any(|one| {
            let text = &one.text;
            text == "--privileged"
                || text.starts_with("/:")
                || text.contains("docker.sock")
                || text.contains("source=/,")
                || has_word("--pid=host", text)
        });
        if reaches_out {
            self.note_effect(Unknown, all);
        }
        let entry = found.iter().find(|(name, _)| *name == "--entrypoint");
        let inner = rest.get(1..).unwrap_or_default();
        match (entry, inner) {
            (Some((_, Some(entry))), inner) => {
                let words: Vec<Argument> = std::iter::once((*entry).clone()).chain(inner.iter().cloned()).collect();
                self.command(&words, stdin);
            }
            (Some((_, None)), _) => self.note_effect(Unknown, all),
            (None, []) if arguments[at].text == "run" => self.unseen(all),
            (None, []) => self.note_effect(Unknown, all),
            (None, inner) => self.command(inner, stdin),
        }
        true
    }

    fn behind_dashes(&mut self, arguments: &[Argument], stdin: &Stdin, all: &str) {
        match arguments.iter().position(|one| one.text == "--").map(|at| &arguments[at + 1..]) {
            Some(inner @ [_, ..]) => self.command(inner, stdin),
            _ => self.note_effect(Unknown, all),
        }
    }

    fn wrapper(
        &mut self,
        name: &str,
        arguments: &[Argument],
        (valued, plain): (&str, &str),
        (all, stdin): (&str, &Stdin),
    ) {
        let read = options(arguments, valued, plain);
        let Some((found, rest)) = read else {
            self.note_effect(Unknown, all);
            // The command is behind an unknown option: it may begin at any irreversible word.
            for at in 0..arguments.len() {
                if arguments[at].fixed().is_some_and(|word| has_word(IRREVERSIBLE, word)) {
                    self.command(&arguments[at..], stdin);
                }
            }
            return;
        };
        let has = |letters: &str| found.iter().any(|(name, _)| has_word(letters, name));
        if has_word("time strace ltrace", name) {
            self.may_write(&arguments[..arguments.len() - rest.len()], all);
        }
        // A time, a directory, a file or a mask comes before the command.
        let skipped = usize::from(has_word("timeout gtimeout chroot flock taskset chrt", name));
        let mut rest = rest.get(skipped..).unwrap_or_default();
        while let Some((first, behind)) = rest.split_first().filter(|_| has_word("env sudo doas", name)) {
            let Some((variable, value)) = first.text.split_once('=').filter(|(variable, _)| !variable.is_empty())
            else {
                break;
            };
            self.variables(
                &[(variable.to_owned(), Argument { text: value.to_owned(), is_fixed: first.is_fixed })],
                true,
            );
            rest = behind;
        }
        match (name, rest) {
            ("command", _) if has_option(arguments, "-v -V") => self.note_effect(Reversible, all),
            ("flock", [option, code, ..]) if has_word("-c --command", &option.text) => self.code(code, all),
            ("watch", inner @ [_, ..]) => self.joined(inner, all),
            ("env", _) if has_option(arguments, "-S --split-string") => self.note_effect(Unknown, all),
            ("sudo", []) if has("l K k v") => self.note_effect(Reversible, all),
            // A shell, or nothing.
            ("sudo" | "doas" | "chroot" | "unshare" | "nsenter", []) => self.reads_code(stdin, all),
            (_, []) => self.note_effect(Reversible, all),
            (_, inner) => self.command(inner, stdin),
        }
    }

    fn shell(&mut self, arguments: &[Argument], stdin: &Stdin, all: &str) {
        let valued = "-o -O +o +O --rcfile --init-file";
        let plain = "-c -x -e -u -l -i -s -v -n -f -a -b -m -p -r -B -C -E -H -P -T -k -t -h -D --norc --noprofile --login --posix --restricted \
            --verbose --noediting --no-rcs --private";
        let Some((found, rest)) = options(arguments, valued, plain) else {
            return self.note_effect(Unknown, all);
        };
        let has = |wanted: &str| found.iter().any(|(name, _)| has_word(wanted, name));
        if has("--rcfile --init-file") {
            self.note_effect(Unknown, all);
        }
        if has("-c c") {
            return match rest.first() {
                Some(code) => self.code(code, all),
                None => self.note_effect(Unknown, all),
            };
        }
        match rest {
            [] => self.reads_code(stdin, all),
            _ if has("-s s") => self.reads_code(stdin, all),
            [file, ..] if has_word("/dev/stdin -", &file.text) => self.reads_code(stdin, all),
            _ => self.script(rest, all),
        }
    }

    /// Judges a shell that reads its commands.
    fn reads_code(&mut self, stdin: &Stdin, all: &str) {
        match stdin {
            Stdin::Terminal => self.note_effect(Reversible, all),
            Stdin::Text(code) => self.give(code.clone()),
            Stdin::Unseen => self.note_effect(Unknown, all),
        }
    }

    /// Judges code of a shell in a word.
    fn code(&mut self, code: &Argument, all: &str) {
        match code.fixed() {
            Some(code) => self.give(code.to_owned()),
            None => {
                self.note_effect(Unknown, all);
                // This reads the text in it unchanged: `$f` may stand for anything, and `rm` is `rm`.
                let inside = code.text.trim_matches(['"', '\'']).to_owned();
                self.give(inside);
            }
        }
    }

    fn joined(&mut self, words: &[Argument], all: &str) {
        if words.iter().all(|word| word.is_fixed) {
            self.give(join_words(words));
        } else {
            self.note_effect(Unknown, all);
            self.give(join_words(words));
        }
    }

    /// Judges a file of commands that is run by its name.
    fn script(&mut self, words: &[Argument], all: &str) {
        match words.split_first() {
            Some((file, arguments)) if file.is_fixed && !file.text.starts_with("/dev/") => {
                let name = file.text.rsplit('/').next().unwrap_or_default().to_owned();
                self.own(&name, all, arguments);
            }
            _ => self.note_effect(Unknown, all),
        }
    }

    fn own_program(&mut self, name: &str, path: &str, arguments: &[Argument]) {
        let all = format!("{path} {}", join_words(arguments));
        self.own(name, &all, arguments);
    }

    fn own_target(&mut self, _program: &str, target: Option<&Argument>, arguments: &[Argument], all: &str) {
        match target.and_then(Argument::fixed) {
            // A version of a package is no target of the project.
            Some(target) if target.contains('@') => self.note_effect(Unknown, all),
            Some(target) => {
                let target = target.to_owned();
                self.own(&target, all, arguments);
            }
            None => self.note_effect(Unknown, all),
        }
    }

    /// Judges a program, script or target of the project by its name and its arguments: this does not read its file.
    fn own(&mut self, name: &str, all: &str, arguments: &[Argument]) {
        let words = |text: &str| -> Vec<String> {
            text.split(|sign: char| !sign.is_alphanumeric())
                .filter(|word| !word.is_empty())
                .map(str::to_lowercase)
                .collect()
        };
        let tells = |list: &[&str], text: &str| words(text).iter().any(|word| has_beginning(list, word));
        let is_telling = tells(&TELLING, name)
            || tells(&TELLING_NAMES, name)
            || arguments.iter().any(|one| one.is_fixed && tells(&TELLING, &one.text));
        if is_telling {
            self.note_effect(Unknown, all);
        } else {
            self.unseen(all.trim());
        }
    }

    fn git(&mut self, arguments: &[Argument], all: &str) {
        let valued = "-C -c --git-dir --work-tree --namespace --super-prefix --config-env --exec-path";
        let plain = "--no-pager -p --paginate -P --bare --no-replace-objects --literal-pathspecs --no-optional-locks";
        let Some((found, rest)) = options(arguments, valued, plain) else { return self.note_effect(Unknown, all) };
        for (_, value) in found.iter().filter(|(name, _)| has_word("-c c --config-env --exec-path", name)) {
            let value = value.and_then(|value| value.fixed()).unwrap_or_default();
            if !["user.", "color.", "advice.", "init.", "commit.gpgsign", "http.sslVerify", "safe."]
                .iter()
                .any(|known| value.starts_with(known))
            {
                self.note_effect(Unknown, all);
            }
        }
        let Some((sub, rest)) = rest.split_first() else { return self.note_effect(Reversible, all) };
        let Some(sub) = sub.fixed() else { return self.note_effect(Unknown, all) };
        let has = |wanted: &str| has_option(rest, wanted);
        let plain: Vec<&Argument> = rest.iter().filter(|one| !one.text.starts_with('-')).collect();
        if rest.iter().any(|one| {
            ["--upload-pack", "--receive-pack", "--extcmd", "--open-files-in-pager", "--output"]
                .iter()
                .any(|option| one.text.starts_with(option))
        }) {
            return self.note_effect(Unknown, all);
        }
        if sub == "archive" && has("--exec --remote") || has("--abort --quit --prune") {
            return self.note_effect(Unknown, all);
        }
        // An address that is a command, a reference that is overwritten.
        if rest.iter().any(|one| one.text.contains("ext::"))
            || sub == "fetch" && plain.iter().any(|one| one.text.starts_with('+'))
        {
            return self.note_effect(Unknown, all);
        }
        if has_word("archive format-patch bundle", sub) {
            self.may_write(rest, all);
        }
        if sub == "grep" && rest.iter().any(|one| one.text.starts_with("-O")) {
            return self.note_effect(Unknown, all);
        }
        let first = plain.first().map(|one| one.text.as_str()).unwrap_or_default();
        let effect = match sub {
            "status" | "log" | "diff" | "show" | "blame" | "help" | "ls-files" | "ls-tree" | "ls-remote"
            | "rev-parse" | "describe" | "shortlog" | "grep" | "cat-file" | "name-rev" | "merge-base"
            | "for-each-ref" | "rev-list" | "whatchanged" | "version" | "count-objects" | "check-ignore"
            | "diff-tree" | "diff-index" | "var" | "cherry" | "range-diff" | "show-ref" | "verify-commit"
            | "verify-tag" | "annotate" | "fsck" => Reversible,
            "reflog" => match first {
                "" | "show" | "exists" | "list" => Reversible,
                _ => Irreversible,
            },
            "init" | "add" | "commit" | "format-patch" | "archive" | "notes" | "apply" | "am" | "bundle"
            | "maintenance" | "sparse-checkout" | "stage" | "cherry-pick" | "revert" | "merge" | "request-pull"
            | "instaweb" | "gitk" | "gui" | "difftool" | "mergetool" => Reversible,
            "clone" if has("-u -c --config") => Unknown,
            "fetch" | "pull" | "mv" if has("--force -f") => Unknown,
            "clone" | "fetch" | "pull" | "mv" => Reversible,
            "push" if has("-n --dry-run") => Reversible,
            "clean" if has("-n --dry-run") => Reversible,
            "push" | "clean" | "filter-branch" | "filter-repo" | "prune" | "send-email" | "replace" | "fast-import"
            | "svn" | "p4" => Irreversible,
            "rebase" => match rest.windows(2).find(|pair| has_word("-x --exec", &pair[0].text)) {
                Some(pair) => {
                    let code = pair[1].clone();
                    self.code(&code, all);
                    Reversible
                }
                None if rest.iter().any(|one| one.text.starts_with("--exec=")) => Unknown,
                None => Reversible,
            },
            "reset" => {
                if has("--hard --merge --keep") {
                    Irreversible
                } else {
                    Reversible
                }
            }
            "restore" => {
                if has("-S --staged") && !has("-W --worktree") {
                    Reversible
                } else {
                    Irreversible
                }
            }
            "switch" => {
                if has("-f --force --discard-changes -C --force-create") {
                    Irreversible
                } else {
                    Reversible
                }
            }
            "checkout" => {
                let names_files =
                    rest.iter().any(|one| one.text == "--") || plain.len() > 1 && !has("-b -t --track --orphan");
                if has("-f --force -B -p --patch --ours --theirs") || names_files || first == "." {
                    Irreversible
                } else if !has("-b -t --orphan --track")
                    && plain.iter().any(|one| !one.is_fixed || one.text.contains('.'))
                {
                    // The name of a file discards its changes.
                    Unknown
                } else {
                    Reversible
                }
            }
            "branch" => {
                if has("-D -f --force -M -C") || has("-d --delete") && has("-r --remotes") {
                    Irreversible
                } else {
                    Reversible
                }
            }
            "tag" => {
                if has("-d --delete -f --force") {
                    Irreversible
                } else {
                    Reversible
                }
            }
            "rm" => {
                if has("-f --force") {
                    Irreversible
                } else {
                    Reversible
                }
            }
            "stash" => match first {
                "drop" | "clear" => Irreversible,
                "list" | "show" => Reversible,
                _ => Reversible,
            },
            "gc" | "repack" => {
                if rest.iter().any(|one| one.text.starts_with("--prune")) || has("--aggressive -d") {
                    Irreversible
                } else {
                    Reversible
                }
            }
            "update-ref" | "symbolic-ref" => {
                if has("-d --delete --stdin") {
                    Irreversible
                } else if plain.len() < 2 {
                    Reversible
                } else {
                    Unknown
                }
            }
            "remote" => match first {
                "" | "show" | "get-url" => Reversible,
                "add" | "rename" | "set-url" | "update" | "set-head" => Reversible,
                _ => Irreversible,
            },
            "worktree" => match first {
                "list" => Reversible,
                "add" | "lock" | "unlock" | "move" | "repair" => Reversible,
                "remove" if !has("-f --force") => Reversible,
                _ => Irreversible,
            },
            "submodule" => match first {
                "" | "status" | "summary" => Reversible,
                "add" | "update" | "init" | "sync" if !has("-f --force") => Reversible,
                "foreach" => {
                    let code: Vec<Argument> = rest
                        .iter()
                        .skip(1)
                        .filter(|one| !has_word("--recursive --quiet -q", &one.text))
                        .cloned()
                        .collect();
                    return self.joined(&code, all);
                }
                _ => Irreversible,
            },
            "bisect" => match first {
                "run" => return self.command(&rest[1..], &Stdin::Terminal),
                "log" | "view" | "visualize" => Reversible,
                _ => Reversible,
            },
            "config" => return self.git_config(rest, all),
            "lfs" => match first {
                "ls-files" | "status" | "env" => Reversible,
                "pull" | "fetch" | "install" | "track" | "untrack" | "checkout" => Reversible,
                _ => Unknown,
            },
            _ => Unknown,
        };
        if has_word("difftool mergetool", sub) && has("-x -t --tool") {
            return self.note_effect(Unknown, all);
        }
        self.note_effect(effect, all);
    }

    /// Judges settings of git: some are commands that it runs later.
    fn git_config(&mut self, rest: &[Argument], all: &str) {
        let plain: Vec<&Argument> = rest
            .iter()
            .filter(|one| !one.text.starts_with('-') && !has_word("get set list unset", &one.text))
            .collect();
        let sub = rest.first().map(|one| one.text.as_str()).unwrap_or_default();
        match (plain.first().map(|one| one.text.to_lowercase()), plain.get(1)) {
            _ if has_option(rest, "--unset --unset-all --remove-section -e --edit")
                || has_word("unset remove-section edit", sub) =>
            {
                self.note_effect(Unknown, all);
            }
            (_, None) => self.note_effect(Reversible, all),
            (Some(key), Some(value)) => {
                let is_command = [
                    "alias.",
                    "core.editor",
                    "core.pager",
                    "core.sshcommand",
                    "core.fsmonitor",
                    "core.hookspath",
                    "core.askpass",
                    "filter.",
                    "diff.",
                    "merge.",
                    "credential.",
                    "pager.",
                    "sequence.editor",
                    "include",
                    "url.",
                    "gpg.",
                    "uploadpack.",
                    "receive.",
                ];
                if !is_command.iter().any(|begin| key.starts_with(begin)) {
                    return self.note_effect(Reversible, all);
                }
                match value.fixed() {
                    Some(code) if key.ends_with("editor") || key.ends_with("pager") => {
                        let words: Vec<Argument> = code
                            .split_whitespace()
                            .map(|word| Argument { text: word.to_owned(), is_fixed: true })
                            .collect();
                        self.command(&words, &Stdin::Terminal);
                    }
                    _ => self.note_effect(Unknown, all),
                }
            }
            (None, Some(_)) => self.note_effect(Unknown, all),
        }
    }

    fn targets(&mut self, name: &str, arguments: &[Argument], all: &str) {
        if has_option(arguments, "--eval --load") || arguments.iter().any(|one| one.text.starts_with("SHELL=")) {
            return self.note_effect(Unknown, all);
        }
        if arguments.iter().any(|one| has_word("-n --dry-run --just-print -q --question --list -l", &one.text))
            && name != "task"
        {
            return self.note_effect(Reversible, all);
        }
        if let Some(first) =
            arguments.iter().find(|one| !one.is_fixed && !one.text.contains('=') && !one.text.starts_with("-j"))
        {
            return self.note_effect(Unknown, &first.text);
        }
        let is_target = |one: &&Argument| !one.text.starts_with('-') && !one.text.contains('=');
        let targets: Vec<&str> = arguments.iter().filter(is_target).map(|one| one.text.as_str()).collect();
        self.own(&targets.join(" "), all, arguments);
    }

    fn interpreter(&mut self, name: &str, arguments: &[Argument], stdin: &Stdin, all: &str) {
        let valued = "-W -X -I -r --require -M --max-old-space-size -cp -classpath";
        let plain = "-q -u -B -E -O -OO -s -S -v -V -i -b -d -w -T -t -l -a -p -n --inspect --inspect-brk --trace-warnings --watch --harmony";
        let is_python = name.starts_with("python") || name.starts_with("pypy");
        if is_python && let Some(at) = arguments.iter().position(|one| one.text == "-m") {
            return self.python_module(&arguments[at + 1..], all);
        }
        let code = if name == "php" || name == "java" {
            "-r -B -E"
        } else if is_python {
            "-c"
        } else {
            "-e -E -p -c -x --eval --print -ne -pe -pi -i -lane -n"
        };
        let first_file =
            arguments.iter().position(|one| one.is_fixed && !one.text.starts_with('-')).unwrap_or(arguments.len());
        if has_option(&arguments[..first_file], code) {
            return self.note_effect(Unknown, all);
        }
        let Some((_, mut rest)) = options(arguments, valued, plain) else { return self.note_effect(Unknown, all) };
        if matches!(name, "deno" | "bun") {
            rest = match rest.split_first() {
                Some((sub, behind)) if has_word("run test", &sub.text) => behind,
                Some((sub, _)) if has_word("fmt lint check info doc", &sub.text) => {
                    return self.note_effect(Reversible, all);
                }
                _ => return self.note_effect(Unknown, all),
            };
        }
        match rest {
            [] => match stdin {
                Stdin::Terminal => self.note_effect(Reversible, all),
                Stdin::Text(_) | Stdin::Unseen => self.note_effect(Unknown, all),
            },
            [file, ..] if has_word("- /dev/stdin", &file.text) => self.note_effect(Unknown, all),
            rest => self.script(rest, all),
        }
    }

    fn python_module(&mut self, words: &[Argument], all: &str) {
        let Some((module, arguments)) = words.split_first() else { return self.note_effect(Unknown, all) };
        match module.fixed() {
            Some("pip") => self.known("pip", arguments, &Stdin::Terminal, all),
            Some(
                "venv" | "json.tool" | "http.server" | "unittest" | "compileall" | "ensurepip" | "build" | "timeit"
                | "this" | "site" | "mypy" | "black" | "ruff" | "isort" | "flake8" | "zipfile" | "tarfile"
                | "py_compile" | "platform" | "sysconfig",
            ) => {
                self.note_effect(Reversible, all);
            }
            Some("pytest" | "nose" | "tox" | "coverage") => self.unseen(all),
            Some("pdb" | "cProfile" | "trace" | "doctest") => {
                let file = arguments.iter().position(|one| !one.text.starts_with('-'));
                self.script(file.map_or(&[][..], |at| &arguments[at..]), all);
            }
            Some("twine") => self.note_effect(Irreversible, all),
            Some(own) => {
                let own = own.to_owned();
                self.own(&own, all, arguments);
            }
            None => self.note_effect(Unknown, all),
        }
    }

    fn sql_client(&mut self, name: &str, arguments: &[Argument], stdin: &Stdin, all: &str) {
        if names_program(arguments) && !has_option(arguments, "--command --execute") {
            self.note_effect(Unknown, all);
        }
        let (mut statements, mut files, mut at): (Vec<&Argument>, Vec<String>, usize) = (Vec::new(), Vec::new(), 0);
        let mut positional: Vec<&Argument> = Vec::new();
        let mut joined: Vec<Argument> = Vec::new();
        while let Some(word) = arguments.get(at) {
            at += 1;
            let text = word.text.as_str();
            if has_word("-c -e -Q -q --command --execute --query -cmd", text) && !(name == "psql" && text == "-q") {
                statements.extend(arguments.get(at));
                at += 1;
            } else if let Some((_, code)) =
                text.split_once('=').filter(|(option, _)| has_word("--command --execute --query", option))
            {
                joined.push(Argument { text: code.to_owned(), is_fixed: word.is_fixed });
            } else if has_word("-f -i --file -init --init-command", text) || text.starts_with("--file=") {
                let file = text.split_once('=').map(|(_, file)| file.to_owned());
                files.push(
                    file.or_else(|| arguments.get(at).and_then(Argument::fixed).map(str::to_owned)).unwrap_or_default(),
                );
                at += usize::from(!text.contains('='));
            } else if name == "psql"
                && has_word("-d -h -p -U -v -P -L -o --dbname --host --port --username --set", text)
                || name != "psql" && has_word("-h -u -P -D -S --host --user --port --database", text)
            {
                at += 1;
            } else if text.len() > 2
                && text.is_char_boundary(2)
                && text.starts_with(if name == "psql" { "-c" } else { "-e" })
            {
                joined.push(Argument { text: text[2..].to_owned(), is_fixed: word.is_fixed });
            } else if !text.starts_with('-') {
                positional.push(word);
            }
        }
        if has_word("sqlite3 sqlite duckdb litecli", name) {
            statements.extend(positional.into_iter().skip(1));
        }
        for file in &files {
            if file.is_empty() || file.starts_with("/dev/") || file == "-" {
                self.note_effect(Unknown, all);
            } else {
                self.own(file, all, &[]);
            }
        }
        let writes = |one: &Argument| {
            ["-o", "-L", "--output", "--log-file", "--tee"].iter().any(|option| one.text.starts_with(option))
        };
        for (at, _) in arguments.iter().enumerate().filter(|(_, one)| writes(one)) {
            self.may_write(&arguments[at..(at + 2).min(arguments.len())], all);
        }
        let has_none = statements.is_empty() && joined.is_empty();
        for statement in statements.into_iter().chain(&joined) {
            if !statement.is_fixed {
                self.note_effect(Unknown, all);
            }
            self.sql(&statement.text);
        }
        match stdin {
            Stdin::Text(text) if has_none => self.sql(text),
            Stdin::Unseen if has_none => self.note_effect(Unknown, all),
            _ => self.note_effect(Reversible, all),
        }
    }

    /// Judges the text for a client of a database.
    pub(super) fn sql(&mut self, text: &str) {
        match sql::effect(text) {
            sql::SqlEffect::Known(effect) => self.note_effect(effect, text),
            sql::SqlEffect::Shell(line) => self.give(line),
        }
    }

    fn other_user(&mut self, arguments: &[Argument], stdin: &Stdin, all: &str) {
        let code = arguments.windows(2).find(|pair| has_word("-c --command", &pair[0].text)).map(|pair| &pair[1]);
        let joined =
            arguments.iter().find_map(|one| one.text.strip_prefix("--command=").map(|code| (code, one.is_fixed)));
        match (code, joined) {
            (Some(code), _) => self.code(code, all),
            (None, Some((code, is_fixed))) => self.code(&Argument { text: code.to_owned(), is_fixed }, all),
            (None, None) => match arguments.iter().position(|one| one.text == "--") {
                Some(at) if at + 1 < arguments.len() => self.command(&arguments[at + 1..], stdin),
                _ if has_option(arguments, "-c") => self.note_effect(Unknown, all),
                _ => self.reads_code(stdin, all),
            },
        }
    }

    fn other_machine(&mut self, arguments: &[Argument], stdin: &Stdin, all: &str) {
        let valued = "-b -c -D -E -e -F -I -i -J -L -l -m -O -o -p -Q -R -S -W -w -B -P";
        let plain = "-4 -6 -A -a -C -f -G -g -K -k -M -N -n -q -s -T -t -V -v -X -x -Y -y";
        // ssh reads the names of its settings in any case.
        let programs =
            ["proxycommand", "localcommand", "knownhostscommand", "provider", "xauthlocation", "include", "match"];
        let is_program = |one: &Argument| {
            let text = one.text.to_lowercase();
            programs.iter().any(|word| text.contains(word))
        };
        if arguments.iter().any(is_program) {
            return self.note_effect(Unknown, all);
        }
        let Some((mut found, rest)) = options(arguments, valued, plain) else { return self.note_effect(Unknown, all) };
        // Options may stand behind the host, too.
        let Some((more, command)) = options(rest.get(1..).unwrap_or_default(), valued, plain) else {
            return self.note_effect(Unknown, all);
        };
        found.extend(more);
        let is_empty = |value: Option<&Argument>| {
            value.and_then(Argument::fixed).is_some_and(|file| has_word("/dev/null none", file))
        };
        // A configuration of its own and a library may run commands here.
        if found.iter().any(|(name, value)| has_word("-F F", name) && !is_empty(*value) || has_word("-I I", name)) {
            self.note_effect(Unknown, all);
        }
        if rest.is_empty() {
            return self.note_effect(Reversible, all);
        }
        match command {
            [] => self.reads_code(stdin, all),
            [_, ..] => {
                // The other machine's shell reads the words, joined, and what the line gives it.
                if command.iter().any(|word| !word.is_fixed) {
                    self.note_effect(Unknown, all);
                }
                self.give_reading(join_words(command), stdin.clone());
            }
        }
    }

    fn each_line(&mut self, arguments: &[Argument], all: &str) {
        let valued =
            "-I -n -P -L -d -a -s -E -j --max-args --max-procs --replace --delimiter --arg-file --max-lines --jobs";
        let plain = "-0 -r -t -p -x -o -k --null --no-run-if-empty --verbose --interactive --exit --open-tty --bar --keep-order -i";
        let Some((_, rest)) = options(arguments, valued, plain) else { return self.note_effect(Unknown, all) };
        if rest.is_empty() {
            return self.note_effect(Reversible, all);
        }
        let inner: Vec<Argument> = rest.iter().cloned().chain([Argument::unknown()]).collect();
        self.command(&inner, &Stdin::Unseen);
    }

    fn find(&mut self, arguments: &[Argument], stdin: &Stdin, all: &str) {
        let mut effect = Reversible;
        let mut at = 0;
        while let Some(word) = arguments.get(at) {
            at += 1;
            match word.fixed() {
                Some("-delete") => effect = effect.max(Irreversible),
                Some("-exec" | "-execdir" | "-ok" | "-okdir" | "-x" | "-X" | "--exec" | "--exec-batch") => {
                    let end = arguments[at..]
                        .iter()
                        .position(|one| has_word("; +", &one.text))
                        .unwrap_or(arguments.len() - at);
                    let is_place = |one: &Argument| one.text.contains("{}");
                    let inner = arguments[at..at + end].iter().map(|one| {
                        if is_place(one) && one.text == "{}" {
                            Argument::unknown()
                        } else {
                            Argument { is_fixed: one.is_fixed && !is_place(one), ..one.clone() }
                        }
                    });
                    let inner: Vec<Argument> = inner.collect();
                    self.command(&inner, stdin);
                    effect = effect.max(Reversible);
                    at += end + 1;
                }
                Some("-fprint" | "-fprint0" | "-fprintf" | "-fls") => {
                    if let Some(file) = arguments.get(at) {
                        self.writes(&file.clone());
                    }
                }
                Some(
                    "-name" | "-iname" | "-path" | "-ipath" | "-regex" | "-newer" | "-user" | "-size" | "-mtime"
                    | "-type" | "-maxdepth",
                ) => at += 1,
                Some(_) => {}
                // An unknown word may be an option, unless it is the beginning of a path.
                None if word.text.starts_with(['.', '/', '~', '*']) => {}
                None => effect = effect.max(Unknown),
            }
        }
        self.note_effect(effect, all);
    }

    fn request(&mut self, name: &str, arguments: &[Argument], all: &str) {
        let value_of = |options: &str| {
            arguments.iter().enumerate().find_map(|(at, one)| {
                options.split_whitespace().find_map(|option| {
                    let joined = one
                        .text
                        .strip_prefix(option)
                        .filter(|rest| !rest.is_empty() && (rest.starts_with('=') || !option.starts_with("--")));
                    if one.text == option {
                        arguments.get(at + 1).cloned()
                    } else {
                        joined.map(|rest| Argument {
                            text: rest.trim_start_matches('=').to_owned(),
                            is_fixed: one.is_fixed,
                        })
                    }
                })
            })
        };
        let method = if name == "curl" { value_of("-X --request") } else { value_of("--method") };
        let method = method.or_else(|| {
            arguments
                .first()
                .filter(|one| has_word("http https xh", name) && one.text.chars().all(|sign| sign.is_ascii_uppercase()))
                .cloned()
        });
        let sends = match name {
            "curl" => has_option(
                arguments,
                "-d -F -T --data --data-raw --data-binary --data-urlencode --form --form-string --upload-file --json -K --config -Q --quote",
            ),
            "wget" => {
                has_option(arguments, "--post-data --post-file --body-data --body-file --use-askpass -e --execute")
            }
            _ => arguments.iter().skip(1).any(|one| one.text.contains('=') && !one.text.contains("==")),
        };
        let get = has_option(arguments, "-G --get");
        // Other protocols send mail, and change files of a server.
        let is_other = |one: &Argument| {
            one.text
                .split_once("://")
                .is_some_and(|(scheme, _)| !has_word("http https", scheme) && !scheme.contains(['=', '-']))
        };
        if arguments.iter().any(is_other) {
            self.note_effect(Unknown, all);
        }
        let into = value_of(if name == "wget" { "-P --directory-prefix" } else { "--output-dir" });
        into.iter().for_each(|directory| self.writes(directory));
        match method.as_ref().map(|method| (method.is_fixed, method.text.to_uppercase())) {
            Some((true, method)) if method == "DELETE" => self.note_effect(Irreversible, all),
            Some((true, method)) if !has_word("GET HEAD OPTIONS", &method) => self.note_effect(Unknown, all),
            Some((false, _)) => self.note_effect(Unknown, all),
            _ if sends && !get => self.note_effect(Unknown, all),
            _ => self.note_effect(Reversible, all),
        }
        if let Some(file) = value_of(if name == "wget" { "-O --output-document" } else { "-o --output" })
            .filter(|file| file.text != "-")
        {
            self.writes(&file);
        }
    }

    fn copies_elsewhere(&mut self, name: &str, arguments: &[Argument], all: &str) {
        let target = arguments.iter().rfind(|one| !one.text.starts_with('-')).cloned();
        if name == "rsync" {
            if arguments.iter().any(|one| one.text.starts_with("--del") || one.text == "--remove-source-files") {
                let is_dry = has_option(arguments, "-n --dry-run");
                return self.note_effect(if is_dry { Reversible } else { Irreversible }, all);
            }
            if has_option(arguments, "--rsync-path -e --rsh") {
                return self.note_effect(Unknown, all);
            }
            if has_option(arguments, "-n --dry-run") {
                return self.note_effect(Reversible, all);
            }
        }
        match target {
            Some(target) if name != "sftp" && target.is_fixed && !target.text.contains(':') => self.writes(&target),
            Some(_) if name == "sftp" && !has_option(arguments, "-b") => self.note_effect(Reversible, all),
            _ => self.note_effect(Unknown, all),
        }
    }

    fn tar(&mut self, arguments: &[Argument], all: &str) {
        let runs = arguments.iter().any(|one| {
            [
                "--to-command",
                "--checkpoint-action",
                "--use-compress-program",
                "--info-script",
                "--new-volume-script",
                "--rsh-command",
            ]
            .iter()
            .any(|option| one.text.starts_with(option))
        }) || has_option(arguments, "-I -F");
        let first = arguments.first().map(|one| one.text.trim_start_matches('-').to_owned()).unwrap_or_default();
        let has_word_of = |word: &str| arguments.iter().any(|one| one.text == word);
        let effect = if runs || !arguments.iter().all(|one| one.is_fixed || !one.text.starts_with('$')) {
            Unknown
        } else if has_word_of("--remove-files") || has_word_of("--delete") || has_word_of("--recursive-unlink") {
            Irreversible
        } else if has_word_of("-P") || has_word_of("--absolute-names") {
            Unknown
        } else {
            Reversible
        };
        self.note_effect(effect, all);
        // Everything but a pure read counts as a write.
        let is_long = arguments.first().is_some_and(|one| one.text.starts_with("--"));
        let reads = (!is_long && first.contains(['x', 't']))
            || has_word_of("--extract")
            || has_word_of("--get")
            || has_word_of("--list");
        if !reads {
            let is_archive = |at: &usize| {
                let before = at.checked_sub(1).and_then(|at| arguments.get(at)).map_or("", |one| one.text.as_str());
                let is_bundle = *at == 1 || before.starts_with('-') && !before.starts_with("--");
                is_bundle && before.ends_with('f')
                    || before == "--file"
                    || ["-f", "--file="].iter().any(|option| arguments[*at].text.starts_with(option))
            };
            for at in (0..arguments.len()).filter(is_archive) {
                self.may_write(&arguments[at..=at], all);
            }
        }
        if let Some(pair) = arguments.windows(2).find(|pair| has_word("-C --directory", &pair[0].text))
            && effect == Reversible
            && first.contains('x')
        {
            let target = pair[1].clone();
            self.writes(&target);
        }
    }

    fn sed(&mut self, arguments: &[Argument], all: &str) {
        let in_place = arguments.iter().any(|one| {
            one.text.starts_with("--in-place")
                || (one.text.starts_with("-i") && !one.text.starts_with("--"))
                || (one.text.starts_with('-') && !one.text.starts_with("--") && one.text.ends_with('i'))
        });
        let mut scripts = arguments.iter().filter(|one| !one.text.starts_with('-'));
        let script = scripts.next();
        // The commands `w`, `e` and `r` write, run and read.
        let is_plain = script.and_then(Argument::fixed).is_some_and(|script| {
            let flags = script.rsplit(['/', '|', ',', '#', '!']).next().unwrap_or_default();
            (script.starts_with('s') && !flags.contains(['w', 'e']))
                || script.chars().all(|sign| sign.is_ascii_digit() || "$,;pdqn= ".contains(sign))
                || (script.starts_with('/') && script.ends_with(['p', 'd', 'q']))
        }) && !has_option(arguments, "-f --file");
        if !is_plain {
            return self.note_effect(Unknown, all);
        }
        self.note_effect(Reversible, all);
        if in_place {
            for file in scripts.cloned().collect::<Vec<_>>() {
                self.writes(&file);
            }
        }
    }

    fn awk(&mut self, arguments: &[Argument], all: &str) {
        let mut at = 0;
        while let Some(word) = arguments.get(at).filter(|one| one.text.starts_with('-')) {
            at += if has_word("-F -v", &word.text) { 2 } else { 1 };
        }
        let code = arguments
            .get(at)
            .and_then(Argument::fixed)
            .filter(|_| !has_option(arguments, "-f -i -l -E --file --include --exec"));
        let is_plain = code.is_some_and(|code| {
            let outside: String = code.split('"').step_by(2).collect();
            !code.contains("system")
                && !code.contains("getline")
                && !code.contains("@")
                && !outside.replace("||", "").contains('|')
                && !outside.contains(">>")
                && !prints_to_file(&outside)
        });
        self.note_effect(if is_plain { Reversible } else { Unknown }, all);
    }

    fn file_tool(&mut self, name: &str, arguments: &[Argument], all: &str) {
        let files: Vec<Argument> = arguments.iter().filter(|one| !one.text.starts_with('-')).cloned().collect();
        match name {
            "chmod" | "chown" | "chgrp" => {
                // setuid and setgid: the file runs with the identity of its owner or group.
                let gives_identity = files.first().is_some_and(|mode| {
                    mode.text.contains('s') || mode.text.len() == 4 && mode.text.starts_with(['2', '4', '6'])
                });
                let is_unknown = has_option(arguments, "-R --recursive") || name == "chmod" && gives_identity;
                self.note_effect(if is_unknown { Unknown } else { Reversible }, all);
                files.iter().skip(1).for_each(|file| self.writes(file));
            }
            "tee" => files.iter().for_each(|file| self.writes(file)),
            "sort" => {
                let runs = has_option(arguments, "--compress-program");
                self.note_effect(if runs { Unknown } else { Reversible }, all);
                for (at, _) in arguments.iter().enumerate().filter(|(_, one)| {
                    one.text.starts_with("--o") || one.text.starts_with('-') && one.text.contains('o')
                }) {
                    self.may_write(&arguments[at..(at + 2).min(arguments.len())], all);
                }
            }
            "patch" | "unzip" | "7z" => {
                self.note_effect(
                    if has_option(arguments, "-o -f --force -aoa -sdel")
                        || arguments.first().is_some_and(|one| name == "7z" && one.text == "d")
                    {
                        Unknown
                    } else {
                        Reversible
                    },
                    all,
                );
                let into = arguments.windows(2).find(|pair| pair[0].text == "-d").map(|pair| pair[1].clone());
                into.iter().for_each(|directory| self.writes(directory));
            }
            "ln" => {
                self.note_effect(if has_option(arguments, "-f --force") { Unknown } else { Reversible }, all);
                if let Some(link) = files.iter().skip(1).next_back() {
                    self.writes(link);
                }
            }
            _ => {
                let target = arguments
                    .windows(2)
                    .find(|pair| has_word("-t --target-directory", &pair[0].text))
                    .map(|pair| pair[1].clone());
                match target.or_else(|| files.last().cloned()) {
                    Some(target) if name == "mv" && target.text == "/dev/null" => self.note_effect(Irreversible, all),
                    Some(target)
                        if files.first().is_some_and(|one| one.text == "/dev/null" || one.text == "/dev/zero")
                            && name == "cp" =>
                    {
                        let _ = target;
                        self.note_effect(Irreversible, all);
                    }
                    Some(target) => {
                        self.note_effect(Reversible, all);
                        self.writes(&target);
                        if name == "mv" {
                            files.iter().for_each(|file| self.moves(file));
                        }
                    }
                    None => self.note_effect(Unknown, all),
                }
            }
        }
    }

    /// Judges a file that the command moves away.
    fn moves(&mut self, file: &Argument) {
        if file.text.starts_with('/') || file.text.starts_with('~') {
            self.appends(file);
        }
    }

    fn editor(&mut self, arguments: &[Argument], stdin: &Stdin, all: &str) {
        // An unknown option may be code.
        let known = "-R -n -o -O -d -p -N -y -Z -u -r -w -l -m -v -nw -Q -q -g --clean --wait --goto --diff --";
        let runs = arguments.iter().any(|one| {
            let text = one.text.as_str();
            text.starts_with('+') && text.len() > 1 && !text[1..].chars().all(|sign| sign.is_ascii_digit())
                || text.starts_with('-') && text != "-" && !has_word(known, text)
        });
        let runs = runs
            || arguments.windows(2).any(|pair| pair[0].text == "-u" && !has_word("NONE NORC DEFAULTS", &pair[1].text));
        self.note_effect(if runs || !matches!(stdin, Stdin::Terminal) { Unknown } else { Reversible }, all);
    }

    fn firewall(&mut self, arguments: &[Argument], all: &str) {
        let effect = if has_option(arguments, "-F --flush -X --delete-chain -D --delete -Z -P --policy") {
            Irreversible
        } else if has_option(arguments, "-L --list -S --list-rules") {
            Reversible
        } else {
            Unknown
        };
        self.note_effect(effect, all);
    }

    fn go(&mut self, arguments: &[Argument], all: &str) {
        match arguments.first().and_then(Argument::fixed) {
            Some("run" | "generate") => self.own_target("go", arguments.get(1), arguments, all),
            Some(
                "build" | "test" | "vet" | "fmt" | "mod" | "get" | "install" | "list" | "env" | "version" | "doc"
                | "work" | "clean" | "tool",
            ) => {
                let runs = has_option(arguments, "-exec -toolexec -vettool");
                self.note_effect(if runs { Unknown } else { Reversible }, all);
            }
            _ => self.note_effect(Unknown, all),
        }
    }
}

/// Commands of the shell itself: no programs.
const OF_SHELLS: &str = "alias bg break case cd command continue declare do done echo elif else eval exec if then time while until esac exit export \
    false fg fi for function hash jobs kill let local popd printf pushd pwd read return set shift source test trap true type ulimit \
    builtin complete compgen bind dirs disown getopts history logout shopt suspend times umask unalias unset wait";

/// Returns whether a program reads statements for a database.
pub(super) fn is_database_client(name: &str) -> bool {
    has_word(SQL_CLIENTS, name)
}

/// Returns whether a program without a command reads lines of a shell.
pub(super) fn opens_shell(name: &str) -> bool {
    has_word(SHELLS, name)
        || has_word(
            "ssh mosh su sudo doas chroot nsenter unshare docker podman nerdctl kubectl oc vagrant lxc machinectl newgrp script",
            name,
        )
}

fn is_interpreter(name: &str) -> bool {
    let plain = name.trim_end_matches(|sign: char| sign.is_ascii_digit() || sign == '.');
    has_word(INTERPRETERS, name) || (has_word("python pypy perl ruby php lua", plain) && !plain.is_empty())
}

/// Returns whether code of awk prints to a file: `>` behind `print`.
fn prints_to_file(code: &str) -> bool {
    code.split(['{', '}', ';', '\n']).any(|statement| {
        let statement = statement.trim_start();
        (statement.starts_with("print") || statement.contains(" print")) && statement.contains('>')
    })
}

/// Judges a command of a cloud by its verb.
fn cloud(verb: &str) -> Effect {
    let begins = |words: &[&str]| words.iter().any(|word| verb == *word || verb.starts_with(&format!("{word}-")));
    if begins(&["describe", "list", "get", "show", "ls", "head", "wait", "lookup", "search", "batch-get", "view"]) {
        Reversible
    } else if begins(&[
        "delete",
        "remove",
        "terminate",
        "destroy",
        "rm",
        "purge",
        "deregister",
        "disable",
        "stop",
        "revoke",
        "cancel",
        "detach",
        "reset",
    ]) || verb.contains(":destroy")
        || verb.contains(":reset")
    {
        Irreversible
    } else {
        Unknown
    }
}
