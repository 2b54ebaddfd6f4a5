//! Shells in common configurations: with custom prompts, hooks and settings.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use serde_json::{Value, json};
use steplatch_testkit::settle_fish;

/// A shell with its start-up files.
pub(crate) struct Shell {
    pub(crate) name: &'static str,
    /// The program and its arguments.
    pub(crate) command: &'static [&'static str],
    /// Files of its home directory, by path.
    pub(crate) files: &'static [(&'static str, &'static str)],
    pub(crate) dialect: Dialect,
    /// Reports the start and end of commands, with exit codes.
    pub(crate) is_integrated: bool,
}

/// The language of a shell, as far as the cases differ in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Dialect {
    Posix,
    Fish,
    Csh,
}

const fn shell(
    name: &'static str,
    command: &'static [&'static str],
    files: &'static [(&'static str, &'static str)],
) -> Shell {
    Shell { name, command, files, dialect: Dialect::Posix, is_integrated: true }
}

const fn fish(name: &'static str, config: &'static [(&'static str, &'static str)]) -> Shell {
    Shell { dialect: Dialect::Fish, ..shell(name, &["fish"], config) }
}

/// A shell without reports: its commands have no exit codes.
const fn plain(name: &'static str, command: &'static [&'static str]) -> Shell {
    Shell { is_integrated: false, ..shell(name, command, &[]) }
}

/// A prompt of several lines with colours, a title, a branch and the time at the right margin.
const HEAVY_BASH: &str = r#"
branch() { git symbolic-ref --short HEAD 2>/dev/null || echo none; }
PROMPT_COMMAND='printf "\033]0;%s\007" "$PWD"; echo'
PS1='\[\033[1;34m\]\u@\h\[\033[0m\] \w ($(branch))\[\033[s\033[1;60H\t\033[u\]\n\[\033[32m\]❯\[\033[0m\] '
"#;

const HEAVY_ZSH: &str = r#"
setopt prompt_subst
precmd() { print; print -Pn "\e]0;%~\a" }
PROMPT='%F{blue}%n@%m%f %~ %(?..%F{red}%?%f)
%F{green}❯%f '
RPROMPT='%F{242}%*%f'
"#;

/// Widgets of oh-my-zsh for pastes and URLs.
const MAGIC_ZSH: &str = r#"
autoload -Uz bracketed-paste-magic url-quote-magic
zle -N bracketed-paste bracketed-paste-magic
zle -N self-insert url-quote-magic
"#;

const HEAVY_FISH: &str = r#"
set -g fish_greeting "Welcome to fish, the friendly interactive shell"
function fish_prompt; echo; set_color blue; echo (prompt_pwd); set_color green; echo -n '❯ '; set_color normal; end
function fish_right_prompt; date '+%H:%M:%S'; end
"#;

/// A prompt of two rows, for shells that read the file of `ENV`.
const TWO_ROW_PROMPT: &[(&str, &str)] = &[(".shrc", "PS1='plain row\n$ '\n")];

/// The table of shells.
pub(crate) const SHELLS: &[Shell] = &[
    shell("bash", &["bash"], &[]),
    shell("bash, heavy prompt", &["bash"], &[(".bashrc", HEAVY_BASH)]),
    // A configuration that cannot contain marks.
    Shell {
        is_integrated: false,
        ..shell(
            "bash, readonly prompt",
            &["bash"],
            &[(".bashrc", "PS1='ro> '; readonly PS1; readonly PROMPT_COMMAND\n")],
        )
    },
    shell("bash, vi mode", &["bash"], &[(".bashrc", "set -o vi\n"), (".inputrc", "set show-mode-in-prompt on\n")]),
    shell("bash, slow start", &["bash"], &[(".bashrc", "sleep 2; echo Welcome\n")]),
    shell("bash, words of a hook", &["bash"], &[(".bashrc", "PROMPT_COMMAND='echo the hook says; false'\n")]),
    shell("bash, debug trap", &["bash"], &[(".bashrc", "seen() { :; }; trap 'seen \"$BASH_COMMAND\"' DEBUG\n")]),
    shell("bash, options", &["bash"], &[(".bashrc", "set -o pipefail; shopt -s extglob histverify\n")]),
    Shell {
        is_integrated: false,
        ..shell("bash, hands over to zsh", &["bash"], &[(".bashrc", "exec zsh\n"), (".zshrc", "PS1='over> '\n")])
    },
    shell(
        "bash, printf replaced",
        &["bash"],
        &[(".bashrc", "printf() { case $1 in *133*) ;; *) builtin printf \"$@\" ;; esac; }\n")],
    ),
    shell("bash, login", &["bash", "-l"], &[(".bash_profile", "echo Last login: today; PS1='\\h:\\w\\$ '\n")]),
    shell("zsh", &["zsh"], &[(".zshrc", "\n")]),
    shell("zsh, heavy prompt", &["zsh"], &[(".zshrc", HEAVY_ZSH)]),
    shell("zsh, readonly prompt", &["zsh"], &[(".zshrc", "PS1='ro> '; readonly PS1\n")]),
    shell("zsh, vi mode", &["zsh"], &[(".zshrc", "bindkey -v; PS1='vi> '\n")]),
    shell("zsh, slow start", &["zsh"], &[(".zshrc", "sleep 2; print Welcome\n")]),
    shell("zsh, time reports", &["zsh"], &[(".zshrc", "REPORTTIME=0\n")]),
    shell("zsh, plugins", &["zsh"], &[(".zshrc", MAGIC_ZSH)]),
    shell("zsh, options", &["zsh"], &[(".zshrc", "setopt correct correct_all auto_cd share_history no_nomatch\n")]),
    fish("fish", &[]),
    fish("fish, heavy prompt", &[(".config/fish/config.fish", HEAVY_FISH)]),
    fish("fish, vi mode", &[(".config/fish/config.fish", "fish_vi_key_bindings\n")]),
    fish(
        "fish, words of a hook",
        &[(".config/fish/config.fish", "function said --on-event fish_postexec; echo the hook says; end\n")],
    ),
    fish("fish, abbreviations", &[(".config/fish/config.fish", "abbr -a echo 'echo changed'; sleep 1\n")]),
    plain("dash", &["dash"]),
    plain("ksh", &["ksh"]),
    plain("busybox", &["busybox", "sh"]),
    Shell { dialect: Dialect::Csh, ..plain("tcsh", &["tcsh"]) },
];

/// Shells without reports, with prompts of two rows. Only the program that opened them knows the first row.
pub(crate) const TWO_ROW_PROMPT_SHELLS: &[Shell] = &[
    Shell { files: TWO_ROW_PROMPT, ..plain("dash, prompt of two rows", &["dash"]) },
    Shell { files: TWO_ROW_PROMPT, ..plain("ksh, prompt of two rows", &["ksh"]) },
    Shell { files: TWO_ROW_PROMPT, ..plain("busybox, prompt of two rows", &["busybox", "sh"]) },
    Shell {
        files: &[(".tcshrc", "set prompt='plain row\\\n% '\n")],
        dialect: Dialect::Csh,
        ..plain("tcsh, prompt of two rows", &["tcsh"])
    },
];

impl Shell {
    /// Creates the shell's home directory below `directory` and returns the environment to start the shell with.
    pub(crate) fn create_home(&self, directory: &Path) -> BTreeMap<&'static str, String> {
        let home = directory.join(self.name.replace([' ', ','], "_"));
        settle_fish(&home);
        for (path, text) in self.files {
            let path = home.join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        let home = home.display().to_string();
        BTreeMap::from([
            ("ZDOTDIR", home.clone()),
            ("XDG_CONFIG_HOME", format!("{home}/.config")),
            ("INPUTRC", format!("{home}/.inputrc")),
            ("ENV", format!("{home}/.shrc")),
            ("HOME", home),
            ("LANG", "C.UTF-8".to_owned()),
            // For shells without start-up files: the prompts of root and of other users differ.
            ("PS1", "plain$ ".to_owned()),
        ])
    }

    /// Returns the `open_terminal` parameters for the shell.
    pub(crate) fn open_parameters(&self, directory: &Path) -> Value {
        json!({"command": self.command, "environment": self.create_home(directory)})
    }
}
