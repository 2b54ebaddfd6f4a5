//! Pages of the documentation, typed word for word by a person in their own terminal.
//!
//! A page is replayed from its text: a block after "Save this as `NAME`" is written to that file, and each command of
//! the other blocks in `sh` is typed. A [`Note`] has what the page says of a command, and what lies outside of it.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use steplatch_testkit::{Home, find_program, free_port, skip_test};

use crate::desk::Desk;
use crate::hosts::{RemoteHost, write_program};

const STEPLATCH: &str = env!("CARGO_BIN_EXE_steplatch");

/// The number of the command and the exit code of the one before.
const PROMPT: &str = r"\# exit $?> ";

/// The end of a question to a person.
const ANSWER: &str = "your answer, by number or text: *$";

/// A passphrase, with Enter.
const PASSPHRASE: &str = "open sesame 42\r";

/// Sets `RUN` to the newest run.
const LAST_RUN: &str = "RUN=$(steplatch runs list | sed -n '2s/ .*//p')";

/// Something about a command of a page.
#[derive(Default)]
struct Note {
    /// Beginning of the command.
    command: &'static str,
    /// Lines that are typed before it, for what the page leaves to its reader.
    before: Vec<String>,
    /// Patterns of the screen, each with the keys that are pressed then.
    keys: Vec<(&'static str, &'static str)>,
    /// Texts on the screen at its end.
    texts: Vec<&'static str>,
    /// The possible exit codes; 0 if there are none.
    codes: &'static [u8],
    /// Reason not to type the command.
    outside: Option<&'static str>,
}

fn annotate(command: &'static str) -> Note {
    Note { command, ..Note::default() }
}

impl Note {
    fn before(mut self, line: impl Into<String>) -> Self {
        self.before.push(line.into());
        self
    }

    fn keys(mut self, pattern: &'static str, keys: &'static str) -> Self {
        self.keys.push((pattern, keys));
        self
    }

    fn shows(mut self, text: &'static str) -> Self {
        self.texts.push(text);
        self
    }

    fn exits(mut self, codes: &'static [u8]) -> Self {
        self.codes = codes;
        self
    }

    fn outside(mut self, reason: &'static str) -> Self {
        self.outside = Some(reason);
        self
    }
}

/// A person with a page, in the directory of a project.
struct Reader {
    home: Home,
    directory: PathBuf,
    page: String,
}

impl Reader {
    fn with_page(page: &str) -> Self {
        let mut home = Home::new(STEPLATCH);
        let (bin, directory) = (home.path().join("bin"), home.path().join("shop"));
        fs::create_dir(&bin).unwrap();
        fs::create_dir(&directory).unwrap();
        symlink(STEPLATCH, bin.join("steplatch")).unwrap();
        home.set("PATH", &format!("{}:{}", bin.display(), std::env::var("PATH").unwrap()));
        home.set("HISTFILE", "");
        Self { home, directory, page: page.to_owned() }
    }

    /// Replaces a name of the page that is of another computer.
    fn replace(&mut self, name: &str, by: &str) {
        assert!(self.page.contains(name), "{name}");
        self.page = self.page.replace(name, by);
    }

    /// Writes a file that the reader of the page has.
    fn has_file(&self, name: &str, text: &str) {
        fs::write(self.directory.join(name), text).unwrap();
    }

    /// Provides the other machines of a page: all of them are one on this computer. `None` if it cannot be provided.
    fn reaches_a_machine(&mut self) -> Option<RemoteHost> {
        let remote = RemoteHost::new(&mut self.home)?;
        let config = self.home.path().join("ssh_config");
        let ssh = format!("#!/bin/bash\nexec /usr/bin/ssh -F {} \"${{@/#ana@*.example.com/box}}\"\n", config.display());
        write_program(&self.home.path().join("bin/ssh"), &ssh);
        Some(remote)
    }

    /// Replays the page. The notes are in the order of its commands.
    async fn replay(&self, notes: Vec<Note>) {
        let bash = format!("PS1='{PROMPT}' exec bash --norc --noprofile +H -i");
        let desk = Desk::start(&self.home, &self.directory, &bash, (200, 60), &[]).await;
        let mut number = 1;
        let mut notes = notes.into_iter().peekable();
        for step in steps(&self.page) {
            match step {
                Step::File(name, text) => {
                    let path = match name.strip_prefix("~/") {
                        Some(name) => self.home.path().join(name),
                        None => self.directory.join(name),
                    };
                    fs::create_dir_all(path.parent().unwrap()).unwrap();
                    fs::write(path, text).unwrap();
                }
                Step::Shown(_) => {}
                Step::Command(command) => {
                    let note = notes.next_if(|note| command.starts_with(note.command)).unwrap_or_default();
                    if note.outside.is_some() {
                        continue;
                    }
                    for line in &note.before {
                        let screen = enter(&desk, &mut number, line, &[]).await;
                        assert!(screen.ends_with("exit 0>"), "{line}:\n{screen}");
                    }
                    let screen = enter(&desk, &mut number, &command, &note.keys).await;
                    let codes = if note.codes.is_empty() { &[0] } else { note.codes };
                    let has_exited = codes.iter().any(|code| screen.ends_with(&format!("exit {code}>")));
                    assert!(has_exited, "{command}:\n{screen}");
                    for text in note.texts {
                        assert!(screen.contains(text), "{command} does not show {text:?}:\n{screen}");
                    }
                }
            }
        }
        let unused = notes.next().map(|note| note.command);
        assert_eq!(unused, None, "the page has no such command, or has it elsewhere");
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        // 'steplatch open' and 'terminal share' leave a server in the background.
        self.home.run(&["serve", "stop"]);
    }
}

/// Types a line on an empty screen, and returns the screen once the command has ended.
async fn enter(desk: &Desk, number: &mut usize, line: &str, keys: &[(&str, &str)]) -> String {
    desk.expect_screen(&format!("(^|\\D){number} exit \\d+> *\\Z")).await;
    desk.press("\x0c").await;
    desk.expect_screen(&format!("\\A{number} exit \\d+> *\\Z")).await;
    desk.press(&format!("{}\r", line.replace('\n', "\r"))).await;
    for (pattern, keys) in keys {
        desk.expect_screen(pattern).await;
        desk.press(keys).await;
    }
    *number += 1;
    desk.expect_screen(&format!("(^|\\D){number} exit \\d+> *\\Z")).await.trim_end().to_owned()
}

enum Step {
    File(String, String),
    Command(String),
    /// A block that is only shown.
    Shown(String),
}

/// Returns the files and the commands of a page.
fn steps(page: &str) -> Vec<Step> {
    let mut steps = Vec::new();
    let mut paragraph = "";
    // Every second part is code.
    for (index, part) in page.split("```").enumerate() {
        if index % 2 == 0 {
            paragraph = part.trim_end().rsplit("\n\n").next().unwrap();
            continue;
        }
        let (language, code) = part.split_once('\n').unwrap();
        let name = paragraph.rsplit_once("ave ").and_then(|(_, object)| object.split('`').nth(1));
        match name {
            Some(name) => steps.push(Step::File(name.to_owned(), code.to_owned())),
            None if language == "sh" => steps.extend(commands(code).into_iter().map(Step::Command)),
            None => steps.push(Step::Shown(code.to_owned())),
        }
    }
    steps
}

/// Returns the commands of a block: its lines, those of a here-document and of a continued command in one.
fn commands(code: &str) -> Vec<String> {
    let mut commands: Vec<String> = Vec::new();
    for line in code.lines() {
        match commands.last_mut() {
            Some(last) if last.ends_with(" \\") || last.contains("<<'END'") && !last.ends_with("\nEND") => {
                *last += &format!("\n{line}");
            }
            _ => commands.push(line.to_owned()),
        }
    }
    commands
}

#[tokio::test]
async fn how_to_keep_a_dev_server_running() {
    let mut reader = Reader::with_page(include_str!("../../docs/how-to/dev-server.md"));
    let port = free_port().to_string();
    reader.replace("8123", &port);
    reader.replace("8124", &free_port().to_string());
    let notes = vec![
        annotate("steplatch terminal wait server -p 'Serving HTTP'").shows("match"),
        annotate("curl").shows("Directory listing"),
        annotate("steplatch terminal wait server -p '\" (404")
            .before(format!("curl -so /dev/null localhost:{port}/missing"))
            .shows("match  \" 404"),
        annotate("steplatch terminal screen server --tail 20").shows("GET /missing"),
        annotate("steplatch terminal attach server").keys("GET /missing", "\x1c"),
        annotate("steplatch terminal send server -k ctrl-c").shows("Keyboard interrupt"),
        // The reply to ctrl-c may come before the server's own end.
        annotate("steplatch terminal list")
            .before("steplatch terminal wait server -p never; test $? = 1")
            .shows("exited 0"),
        annotate("steplatch terminal wait dev -p").shows("match"),
        annotate("steplatch terminal send dev -k ctrl-c").shows("prompt"),
    ];
    reader.replay(notes).await;
}

#[tokio::test]
async fn how_to_use_a_debugger() {
    if find_program("gdb").is_none() {
        return skip_test("the page uses gdb");
    }
    let reader = Reader::with_page(include_str!("../../docs/how-to/debugger.md"));
    let sum = "int total(int n) { return n == 0 ? 0 : n + total(n - 1); }\nint main(void) { return total(3); }\n";
    reader.has_file("sum.c", sum);
    let notes = vec![
        annotate("steplatch terminal wait debug --until input").shows("input"),
        annotate("steplatch terminal run debug 'p [int").shows("\n[28, 112, 250]\n"),
        annotate("steplatch terminal attach debug --hold").keys("\\(Pdb\\) *$", "\x1c"),
        annotate("steplatch terminal inputs debug").shows("break total"),
        annotate("steplatch terminal open --name gdb").before("gcc -g -o sum sum.c"),
        annotate("steplatch terminal run gdb run").shows("total (n=1)"),
        annotate("steplatch terminal run gdb bt").shows("total (n=3)"),
        annotate("steplatch run pdb.json").shows("total: 3.9").shows("✓ completed"),
    ];
    reader.replay(notes).await;
}

#[tokio::test]
async fn how_to_answer_an_installer() {
    let mut reader = Reader::with_page(include_str!("../../docs/how-to/installer.md"));
    reader.home.set("DB_PASSWORD", "open sesame 42");
    let script = "read -r -p 'Accept the licence? ' agreed\n[ \"$agreed\" = yes ] || exit 3\n\
                  read -r -p 'Directory [/opt/shop]: ' directory\n\
                  read -r -s -p 'Database password: ' password; echo \"Connects with $password\"\n\
                  echo \"Installed ${directory:-/opt/shop}\"\n";
    reader.has_file("install.sh", script);
    let notes = vec![
        annotate("steplatch terminal send setup -e 'bash").shows("Accept the licence?"),
        annotate("steplatch terminal send setup -e yes").shows("Directory [/opt/shop]:"),
        annotate("steplatch terminal send setup -e /srv").shows("Database password:"),
        annotate("printf").shows("Installed /srv/shop").shows("Connects with ••••••"),
        annotate("steplatch terminal attach").keys("Installed", "\x1c"),
        annotate("steplatch workflow lint").shows("install.json: ok"),
        annotate("DB_PASSWORD=… steplatch run").shows("(secret)").shows("✓ completed"),
    ];
    reader.replay(notes).await;
}

#[tokio::test]
async fn how_to_work_over_ssh() {
    let mut reader = Reader::with_page(include_str!("../../docs/how-to/ssh.md"));
    let Some(remote) = reader.reaches_a_machine() else { return };
    let far = remote.home_dir.path();
    fs::create_dir(far.join("bin")).unwrap();
    write_program(&far.join("bin/make"), "#!/bin/sh\necho made $1\n");
    write_program(&far.join("bin/systemctl"), "#!/bin/sh\necho active\n");
    for file in [".bashrc", ".bash_profile"] {
        fs::write(far.join(file), "PATH=~/bin:$PATH\n").unwrap();
    }
    fs::write(far.join("app.log"), "started\n").unwrap();
    remote.chown_home();
    reader.replace("/var/log/app.log", &far.join("app.log").display().to_string());
    reader.has_file("app.tar.gz", "an archive");
    let notes = vec![
        annotate("steplatch hosts add").shows("is installed on"),
        annotate("steplatch hosts list").shows("build"),
        annotate("steplatch terminal run deploy").shows("Linux\n/srv\n"),
        annotate("steplatch terminal wait deploy").shows("exit code 0"),
        annotate("steplatch run disk.json")
            .before("test \"$(steplatch hosts check build | wc -l)\" -gt 0")
            .shows("✓ completed"),
        annotate("steplatch terminal run box --integrate").shows("\nactive\n"),
    ];
    reader.replay(notes).await;
    assert_eq!(fs::read_to_string(far.join("app.tar.gz")).unwrap(), "an archive");
    assert_eq!(fs::read_to_string(reader.directory.join("app.log")).unwrap(), "started\n");
}

/// Creates a repository with a `Makefile` in the reader's project.
fn has_repository(reader: &mut Reader) {
    for variable in ["GIT_AUTHOR_NAME", "GIT_AUTHOR_EMAIL", "GIT_COMMITTER_NAME", "GIT_COMMITTER_EMAIL"] {
        reader.home.set(variable, "ana@example.org");
    }
    reader.has_file("Makefile", "test check:\n\t@echo 12 passed\n");
    for arguments in [&["init", "-q"][..], &["commit", "-q", "--allow-empty", "-m", "Begin"]] {
        let mut git = reader.home.inside(Path::new("git"));
        assert!(git.current_dir(&reader.directory).args(arguments).status().unwrap().success());
    }
}

#[tokio::test]
async fn how_to_release_with_a_gate() {
    let mut reader = Reader::with_page(include_str!("../../docs/how-to/release-gate.md"));
    has_repository(&mut reader);
    let notes = vec![
        annotate("steplatch workflow test").shows("\"not released\"").shows("✓ completed"),
        annotate("steplatch run release -i VERSION=1.4.2 --detach")
            .before("steplatch run release -i VERSION=1.4.1 < /dev/null; test $? = 3"),
        annotate("steplatch gates wait").shows("Release 1.4.2?"),
        annotate("steplatch gates answer").shows("answered: release"),
        annotate("steplatch runs wait").shows("completed"),
    ];
    reader.replay(notes).await;
    assert!(reader.directory.join(".git/refs/tags/v1.4.2").exists());
}

#[tokio::test]
async fn how_to_run_a_nightly_job() {
    let mut reader = Reader::with_page(include_str!("../../docs/how-to/nightly-job.md"));
    has_repository(&mut reader);
    // The first attempt fails.
    reader.has_file("Makefile", "check:\n\t@test -e attempted || { touch attempted; false; }\n\t@echo 12 passed\n");
    let ended = "until steplatch runs list --json | grep -q '\"state\": \"completed\"'; do sleep 0.1; done";
    let notes = vec![
        annotate("steplatch schedule add").shows("added 'nightly': cron 0 3 * * *"),
        annotate("steplatch schedule run").shows("run_"),
        annotate("steplatch schedule list").before(ended).shows("completed"),
        annotate("steplatch runs list").shows("completed"),
    ];
    reader.replay(notes).await;
}

#[tokio::test]
async fn how_to_capture_and_repair() {
    let reader = Reader::with_page(include_str!("../../docs/how-to/capture-and-repair.md"));
    reader.has_file("setup.sh", include_str!("../../examples/capture/setup.sh"));
    let notes = vec![
        annotate("steplatch terminal send box -e 'sh").shows("Continue? [y/n]"),
        annotate("steplatch terminal send box -e y").shows("Installed."),
        annotate("steplatch workflow capture").shows("assumed").shows("✓ saved"),
        annotate("steplatch workflow test").shows("✓ completed"),
        annotate("steplatch workflow prove").shows("✓ proved by 2 runs"),
        annotate("steplatch run setup").shows("✓ completed"),
        annotate("steplatch gates wait").shows("Where should the run continue?"),
        annotate("steplatch runs patch").shows("! weakens").shows("(Continue|Proceed with the installation)"),
        annotate("steplatch gates answer").keys(ANSWER, "1\r").shows("answered: accept"),
        annotate("steplatch runs wait").shows("completed"),
        annotate("steplatch workflow history").shows("2 now").shows("repair   The installer asks in other words"),
        annotate("steplatch workflow revert").shows("setup is version 3, which equals 1"),
    ];
    reader.replay(notes).await;
}

/// Pages whose commands are not typed here, with the reason.
const OTHERS: [(&str, &str); 2] = [
    ("docs/tour.md", "tour_page_commands_work_to_the_end types them"),
    ("docs/temporal.md", "they need a server of Temporal; see the tests of temporal"),
];

#[test]
fn every_page_with_commands_is_replayed() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let pages = ["docs", "docs/how-to"].into_iter().flat_map(|directory| root.join(directory).read_dir().unwrap());
    for page in pages.map(|entry| entry.unwrap().path()).filter(|path| path.extension().is_some()) {
        let name = page.strip_prefix(root).unwrap().to_str().unwrap();
        let has_commands = fs::read_to_string(&page).unwrap().contains("\n```sh\n");
        let is_replayed = include_str!("documentation.rs").contains(&format!("/{name}\"))"));
        let is_other = OTHERS.iter().any(|(other, _)| *other == name);
        assert_eq!(has_commands, is_replayed || is_other, "{name}");
    }
}

/// Every block of these pages is a file or has commands.
#[test]
fn blocks_of_how_to_pages_are_used() {
    for entry in fs::read_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/docs/how-to")).unwrap() {
        let page = fs::read_to_string(entry.unwrap().path()).unwrap();
        let shown =
            steps(&page).into_iter().find_map(|step| if let Step::Shown(code) = step { Some(code) } else { None });
        assert_eq!(shown, None);
    }
}

#[tokio::test]
async fn readme_commands_work() {
    let mut reader = Reader::with_page(include_str!("../../README.md"));
    reader.replace("cargo run -- ", "steplatch ");
    symlink(concat!(env!("CARGO_MANIFEST_DIR"), "/examples"), reader.directory.join("examples")).unwrap();
    fs::create_dir(reader.home.path().join(".cursor")).unwrap();
    let notes = vec![
        annotate("steplatch run examples/hello.json").shows("✓ completed"),
        annotate("cargo xtask test").outside("runs this test"),
        annotate("cargo install")
            .outside("builds the program in the profile for release; cargo xtask dist --check installs packages"),
        annotate("steplatch setup").shows("✓ Cursor"),
        annotate("steplatch doctor").shows("no problems"),
        annotate("steplatch tour").outside("tour_page_commands_work_to_the_end types it"),
    ];
    reader.replay(notes).await;
}

#[tokio::test]
async fn machines_page_commands_work() {
    let mut reader = Reader::with_page(include_str!("../../docs/machines.md"));
    reader.replace(" RUN ", " $RUN ");
    let notes = vec![
        annotate("steplatch workflow lint").shows("upgrade.json: ok"),
        annotate("steplatch run upgrade.json")
            .keys(ANSWER, "restart\r")
            .shows("{\"version\":\"1.4.2\",\"answer\":\"restart\"}"),
        annotate("steplatch runs show").before(LAST_RUN).shows("answered: restart"),
        annotate("steplatch runs events").shows("echo restarting"),
        annotate("steplatch workflow graph").shows("stateDiagram"),
        annotate("steplatch workflow test").exits(&[1]).shows("broken"),
    ];
    reader.replay(notes).await;
}

#[tokio::test]
async fn versions_of_a_machine_are_listed_and_restored() {
    let reader = Reader::with_page(include_str!("../../docs/machines_reference.md"));
    for text in ["one", "two"] {
        let action = format!(r#"{{"tool": "return", "params": {{"result": "{text}"}}}}"#);
        reader.has_file(&format!("{text}.json"), &machine("build", &action));
    }
    let notes = vec![
        annotate("steplatch workflow history build")
            .before("steplatch workflow load one.json && steplatch workflow load --overwrite two.json")
            .shows("2 now"),
        annotate("steplatch workflow diff build").shows("two"),
        annotate("steplatch workflow show build@2").shows("version 2"),
        annotate("steplatch workflow revert build").shows("build is version 3, which equals 1"),
    ];
    reader.replay(notes).await;
}

#[tokio::test]
async fn project_page_commands_work() {
    let reader = Reader::with_page(include_str!("../../docs/project.md"));
    reader.has_file("notes.txt", "one\ntwo\nthree\n");
    let notes = vec![
        annotate("steplatch nodes list").shows("lines").shows("python"),
        annotate("steplatch graph list").shows("double"),
        annotate("steplatch nodes show double").shows("Doubles the number of lines"),
        annotate("steplatch nodes run lines").shows("\n3\n"),
        annotate("steplatch nodes run python").shows("\"1024\""),
        annotate("steplatch graph run double").shows("\n6\n"),
    ];
    reader.replay(notes).await;
}

#[tokio::test]
async fn capture_page_command_works() {
    let reader = Reader::with_page(include_str!("../../docs/capture.md"));
    let notes = vec![
        annotate("steplatch workflow capture build --name release")
            .before("steplatch terminal open --name build; steplatch terminal run build mkdir site-1.4.0")
            .shows("✓ saved"),
    ];
    reader.replay(notes).await;
    let saved = fs::read_to_string(reader.directory.join(".terminal_control_workflows/release.json")).unwrap();
    assert!(saved.contains("mkdir site-{VERSION"), "{saved}");
}

/// Returns a machine with one state.
fn machine(name: &str, action: &str) -> String {
    format!(
        r#"{{"name": "{name}", "description": "An example", "initial_state": "only", "states": {{"only": {{"action": {action}}}}}}}"#
    )
}

/// Returns a machine that asks a person.
fn asking_machine(name: &str, question: &str) -> String {
    machine(name, &format!(r#"{{"tool": "gate", "params": {question}}}"#))
}

#[tokio::test]
async fn gates_page_commands_work() {
    let mut reader = Reader::with_page(include_str!("../../docs/gates.md"));
    reader.replace("GATE -f", "$FORM -f");
    reader.replace(" GATE ", " $GATE ");
    reader.replace(" RUN ", " $RUN ");
    reader.has_file("ask.json", &asking_machine("ask", r#"{"prompt": "Continue?", "choices": ["yes", "no"]}"#));
    let form = r#"{"prompt": "Which?", "form": {"type": "object", "properties":
        {"version": {"type": "string"}, "count": {"type": "integer"}}}}"#;
    reader.has_file("form.json", &asking_machine("form", form));
    let notes = vec![
        annotate("steplatch gates list")
            .before("GATE=$(steplatch run ask.json --detach)/only/1; FORM=$(steplatch run form.json --detach)/only/1")
            .before("steplatch gates wait ${GATE%/*/*}; steplatch gates wait ${FORM%/*/*}")
            .shows("Continue?")
            .shows("Which?"),
        annotate("steplatch gates show").shows("Continue?"),
        annotate("steplatch gates answer  ")
            .keys("Continue\\?(.*\\n)*.*your answer", "\r")
            .keys("Which\\?", "\x04")
            .exits(&[1]),
        annotate("steplatch gates answer $GATE yes").shows("answered: yes"),
        annotate("steplatch gates answer $GATE no")
            .before("GATE=$(steplatch run ask.json --detach)/only/1; steplatch gates wait ${GATE%/*/*}")
            .shows("answered: no"),
        annotate("steplatch gates answer $FORM").shows("answered"),
        annotate("steplatch approver set").keys("passphrase.*: *$", PASSPHRASE).keys("again.*: *$", PASSPHRASE),
        annotate("steplatch approver status").shows("a passphrase is set"),
        annotate("steplatch approver clear").keys(": *$", PASSPHRASE),
        annotate("steplatch gates passkey add").outside("needs a browser with an authenticator; see passkeys.rs"),
        annotate("steplatch gates passkey list"),
        annotate("steplatch gates passkey remove").outside("needs a passkey; see passkeys.rs"),
        annotate("steplatch runs verify").before(LAST_RUN),
    ];
    reader.replay(notes).await;
}

#[tokio::test]
async fn hosts_page_commands_work() {
    let mut reader = Reader::with_page(include_str!("../../docs/hosts.md"));
    let Some(remote) = reader.reaches_a_machine() else { return };
    remote.install();
    let far = remote.home_dir.path();
    fs::write(far.join("app.log"), "started\n").unwrap();
    remote.chown_home();
    reader.replace("/var/log/app.log", &far.join("app.log").display().to_string());
    reader.replace("web:/srv", &format!("web:{}", far.display()));
    reader.has_file("app.tar.gz", "an archive");
    let notes = vec![
        annotate("steplatch hosts list").shows("build"),
        annotate("steplatch hosts add build --ssh ana@build.example.com --install").shows("is installed"),
        annotate("RUSTFLAGS").outside("builds the program for another C library; cargo xtask dist --static does"),
        annotate("steplatch hosts add old").outside("installs what the line above builds"),
        annotate("steplatch cp -r site web:").before("mkdir site; steplatch hosts add web --ssh ana@web.example.com"),
    ];
    reader.replay(notes).await;
    assert!(far.join("site").is_dir() && far.join("app.tar.gz").exists() && reader.directory.join("app.log").exists());
}

#[tokio::test]
async fn http_page_commands_work() {
    let mut reader = Reader::with_page(include_str!("../../docs/http.md"));
    let port = free_port().to_string();
    reader.replace("steplatch serve      ", &format!("steplatch serve --port {port}"));
    reader.replace("steplatch mcp --http", "steplatch mcp --http --port 0");
    reader.replace("localhost:7878", &format!("localhost:{port}"));
    reader.replace("/RUN?", "/'$RUN'?");
    reader.has_file("Makefile", "test:\n\t@echo 12 passed\n");
    let result = machine("release", r#"{"tool": "return", "params": {"result": "{version}"}}"#);
    reader.has_file("release.json", &result);
    let notes = vec![
        annotate("steplatch serve --port").keys("ctrl-c stops it", "\x03"),
        annotate("steplatch serve --port 0 --json").keys("\\{.*http://", "\x03"),
        annotate("steplatch serve token").shows("http-token"),
        annotate("steplatch mcp --http").keys("ctrl-c stops it", "\x03"),
        annotate("T=").before("steplatch workflow load release.json").before(format!(
            "steplatch serve --port {port} > served & until curl -s localhost:{port}/health; do sleep 0.1; done"
        )),
        annotate("curl -H \"$T\" 'localhost").shows("\"success\":true"),
        annotate("curl -H \"$T\" -H \"$J\" -H 'Idem").shows("\"success\":true"),
        annotate("curl -H \"$T\" -H \"$J\" localhost").shows("12 passed"),
        annotate("curl -H \"$T\" 'localhost").before(LAST_RUN).shows("\"result\":\"1.2\""),
    ];
    reader.replay(notes).await;
}

#[tokio::test]
async fn operation_page_commands_work() {
    let mut reader = Reader::with_page(include_str!("../../docs/operation.md"));
    let bin = reader.home.path().join("bin");
    reader.replace("serve --allow-host", &format!("serve --port {} --allow-host", free_port()));
    reader.replace("MACHINE\n", "build\n");
    reader.replace(".local/state/steplatch", "state");
    fs::create_dir_all(reader.home.path().join(".config/steplatch")).unwrap();
    fs::create_dir_all(reader.home.path().join(".local/share/steplatch")).unwrap();
    let cargo = reader.home.path().join(".cargo/bin");
    fs::create_dir_all(&cargo).unwrap();
    symlink(STEPLATCH, cargo.join("steplatch")).unwrap();
    fs::create_dir(reader.home.path().join(".cursor")).unwrap();
    for program in ["systemctl", "loginctl", "ssh"] {
        write_program(&bin.join(program), "#!/bin/sh\n");
    }
    let notes = vec![
        annotate("systemd-analyze"),
        annotate("steplatch serve --port").keys("ctrl-c stops it", "\x03"),
        annotate("steplatch open --print").shows("http://localhost:"),
        annotate("sqlite3"),
        annotate("steplatch daemon stop --keep-terminals"),
        annotate("steplatch self check").shows("steplatch 0"),
        annotate("steplatch daemon status").shows("host"),
        annotate("steplatch uninstall --dry-run").shows("Removes:"),
        annotate("steplatch uninstall").keys("\\[y/N\\] *$", "y\r").shows("removed"),
        annotate("steplatch serve stop").before("steplatch daemon start"),
        annotate("steplatch doctor").shows("→ add it with: steplatch setup --client cursor"),
        annotate("steplatch daemon status").before("steplatch daemon start"),
        annotate("steplatch config check").shows("configuration: ok"),
    ];
    reader.replay(notes).await;
    assert!(!fs::read(reader.directory.join("steplatch.tar.gz")).unwrap().is_empty());
}

#[tokio::test]
async fn short_pages_commands_work() {
    let reader = Reader::with_page(include_str!("../../docs/page.md"));
    let notes = vec![
        annotate("steplatch open  ").shows("http://localhost:"),
        annotate("steplatch open --print").shows("http://localhost:"),
    ];
    reader.replay(notes).await;
    let reader = Reader::with_page(include_str!("../../docs/settings.md"));
    reader.replay(vec![annotate("steplatch config check").shows("configuration: ok")]).await;
    let reader = Reader::with_page(include_str!("../../docs/notifications.md"));
    fs::create_dir_all(reader.home.path().join(".config/steplatch")).unwrap();
    let rule = "[[notify]]\nwhen = ['gate']\ncommand = ['true']\n";
    fs::write(reader.home.path().join(".config/steplatch/config.toml"), rule).unwrap();
    let notes = vec![
        annotate("steplatch notify test").shows("true"),
        annotate("steplatch notify list").shows("gate"),
        annotate("steplatch doctor").shows("command true of: gate"),
    ];
    reader.replay(notes).await;
    let mut reader = Reader::with_page(include_str!("../../docs/services.md"));
    reader.replace("8000", &free_port().to_string());
    let notes = vec![
        annotate("steplatch up   ").shows("ready"),
        annotate("steplatch ps").shows("files"),
        annotate("steplatch logs").shows("Serving HTTP"),
        annotate("steplatch restart web").shows("ready"),
        annotate("steplatch down").shows("down"),
    ];
    reader.replay(notes).await;
    let reader = Reader::with_page(include_str!("../../docs/schedules.md"));
    fs::create_dir(reader.directory.join("src")).unwrap();
    let state = r#"{"action": {"tool": "set", "params": {"today": "{day}"}}, "transitions": []}"#;
    let machine = format!(r#"{{"name": "backup", "initial_state": "work", "states": {{"work": {state}}}}}"#);
    reader.has_file("backup.json", &machine);
    let notes = vec![
        annotate("steplatch schedule add nightly").shows("added 'nightly': cron 30 2 * * *"),
        annotate("steplatch schedule list").shows("every 10m"),
        annotate("steplatch schedule run").shows("run_"),
        annotate("steplatch schedule pause").shows("paused 'nightly'"),
        annotate("steplatch schedule rm").shows("removed 'poll'"),
    ];
    reader.replay(notes).await;
    let mut reader = Reader::with_page(include_str!("../../docs/ui.md"));
    reader.replace("ui xf1r", "ui $RUN");
    symlink(concat!(env!("CARGO_MANIFEST_DIR"), "/examples"), reader.directory.join("examples")).unwrap();
    let notes = vec![
        annotate("steplatch ui   ").before("steplatch run examples/hello.json").keys("q leave", "q"),
        annotate("steplatch ui $RUN").before(LAST_RUN).keys("completed", "\x03").keys("q leave", "\x03"),
    ];
    reader.replay(notes).await;
    let reader = Reader::with_page(include_str!("../../docs/commander.md"));
    reader.has_file("steplatch.toml", "[nodes.build]\ntype = 'bash'\ncommand = 'echo built {input}'\n");
    reader.has_file("release.json", &asking_machine("release", r#"{"prompt": "Release?", "choices": ["yes", "no"]}"#));
    let notes = vec![annotate("printf").before("steplatch workflow load release.json").shows("✓ completed")];
    reader.replay(notes).await;
}

#[tokio::test]
async fn command_line_page_commands_work() {
    let mut reader = Reader::with_page(include_str!("../../docs/command_line.md"));
    reader.replace("steplatch serve      ", &format!("steplatch serve --port {}", free_port()));
    fs::create_dir(reader.home.path().join(".cursor")).unwrap();
    fs::create_dir(reader.directory.join("flows")).unwrap();
    write_program(&reader.home.path().join("bin/notify"), "#!/bin/sh\necho \"notified of $1\"\n");
    reader.has_file("Makefile", "all:\n\t@echo compiled\ntest:\n\t@echo 12 passed\n");
    reader.has_file("release.json", &asking_machine("release", r#"{"prompt": "Release?", "choices": ["yes", "no"]}"#));
    reader.has_file("stubs.json", r#"{"gates": {"only": "yes"}}"#);
    reader.has_file("flows/notes.py", include_str!("../../examples/fan_out.py"));
    let notes = vec![
        annotate("steplatch terminal attach build  ").keys("[$#] *$", "\x1c"),
        annotate("steplatch terminal attach build --hold").keys("[$#] *$", "\x1c"),
        annotate("steplatch terminal send build").shows("compiled"),
        annotate("steplatch terminal run build make test").shows("12 passed"),
        annotate("steplatch terminal wait build").shows("prompt"),
        annotate("steplatch terminal screen build --tail 20").shows("12 passed"),
        annotate("steplatch terminal inputs").shows("make test"),
        annotate("steplatch terminal record").keys("ctrl-c ends it", "\x03"),
        annotate("steplatch terminal share").shows("http://localhost:"),
        annotate("steplatch run release.json").keys(ANSWER, "yes\r").shows("✓ completed"),
        annotate("steplatch run release --detach").before("steplatch workflow load release.json"),
        annotate("steplatch runs list").shows("waiting"),
        annotate("steplatch gates list").shows("Release?"),
        annotate("steplatch watch").keys("Release\\?", "\x03").exits(&[130]),
        annotate("steplatch approver set").keys("passphrase: *$", PASSPHRASE).keys("again: *$", PASSPHRASE),
        annotate("steplatch workflow load release.json").before("steplatch workflow rm release"),
        annotate("steplatch workflow capture")
            .before("steplatch terminal open --name build; steplatch terminal send build -e make"),
        annotate("steplatch workflow lint").shows("release.json: ok"),
        annotate("steplatch workflow test").shows("✓ completed"),
        annotate("steplatch examples").shows("hello.json"),
        annotate("steplatch init").shows("steplatch.toml"),
        annotate("steplatch nodes list").shows("test"),
        annotate("steplatch hosts add").outside("hosts_page_commands_work has it"),
        annotate("steplatch ui").keys("q leave", "q"),
        annotate("steplatch commander").keys("^\\? *$", "\x03").keys("^› *$", "\x04"),
        annotate("steplatch open").shows("http://localhost:"),
        annotate("steplatch serve").keys("ctrl-c stops it", "\x03"),
        annotate("steplatch setup").shows("✓ Cursor"),
        annotate("steplatch docs").shows("debugger"),
        annotate("steplatch tour").outside("tour_page_commands_work_to_the_end types it"),
        annotate("steplatch doctor").shows("no problems"),
        annotate("steplatch uninstall --dry-run").shows("Removes:"),
        annotate("source <(steplatch completions zsh").outside("is for zsh; see completions.rs"),
        annotate("steplatch completions fish").outside("is for fish; see completions.rs"),
        annotate("steplatch terminal send build").shows("\nbuilt\n"),
        annotate("steplatch runs wait --any")
            .keys("to unlock them: *$", PASSPHRASE)
            .keys(ANSWER, "yes\r")
            .keys("passphrase: *$", PASSPHRASE)
            .shows("answered: yes"),
        annotate("steplatch watch --json")
            .before("steplatch run release --detach")
            .keys("notified of", "\x03")
            // The loop ends by the key, or because there is no other event.
            .exits(&[130, 0]),
    ];
    reader.replay(notes).await;
}
