//! Table of recorded questions and later variants: a captured workflow answers no other question.

use serde_json::Value;
use steplatch_pattern::Pattern;

use crate::procedures::Log;

use crate::CapturedMachine;

/// Returns whether a captured machine types its recorded answer after a program printed `printed`.
fn answers(captured: &CapturedMachine, printed: &str) -> bool {
    let states = captured.definition["states"].as_object().expect("a machine has states");
    let state =
        states.values().find(|state| state["action"]["params"]["pattern"].is_string()).expect("a state has a pattern");
    let pattern = state["action"]["params"]["pattern"].as_str().expect("a state has a pattern");
    let conditions = &state["transitions"][0]["condition"];
    let pattern = pattern.replace("{HOME|regex}", "/home/ana").replace("{PWD|regex}", "/srv");
    let pattern = Pattern::new(&format!("(?m){pattern}")).expect("the captured pattern is valid");
    let Some(found) = pattern.find_at(printed, 0).expect("the search stays within its work limit") else {
        return false;
    };
    let fields = conditions["field_equals"].as_object();
    fields.into_iter().flatten().all(|(field, expected)| {
        let name = field.strip_prefix("groups.").expect("the condition compares only groups");
        let at = pattern
            .group_names()
            .iter()
            .position(|known| known.as_deref() == Some(name))
            .expect("the pattern has the group");
        *expected == Value::Null && found.groups[at].is_none()
    })
}

fn captured(recorded: &str, answer: &str) -> CapturedMachine {
    let row = recorded.lines().next_back().unwrap_or_default();
    Log::default().program("sh x", 0, recorded).answer(row, answer, "").command("true", 0, "").capture(&[], "/srv")
}

/// Recorded questions, each with its answer, a later output, and true if the machine types the answer.
const QUESTIONS: [(&str, &str, &str, bool); 114] = [
    // Words of classes.
    ("Delete /tmp/old-build? [y/N] ", "y", "Delete /tmp/old-build? [y/N] ", true),
    ("Delete /tmp/old-build? [y/N] ", "y", "Delete everything? [y/N] ", false),
    ("Delete /tmp/old-build? [y/N] ", "y", "Delete /etc? [y/N] ", false),
    ("Delete /tmp/old-build? [y/N] ", "y", "Delete /tmp/old-build and /etc? [y/N] ", false),
    ("Delete /tmp/old-build? [y/N] ", "y", "Delete /tmp/../etc? [y/N] ", false),
    ("Delete /tmp/old-build? [y/N] ", "y", "Delete /tmp/production? [y/N] ", false),
    ("Delete /tmp/tmp.a8Xk2QzR1b? [y/N] ", "y", "Delete /tmp/tmp.Zz81pQ04Lm? [y/N] ", true),
    ("Delete /tmp/tmp.a8Xk2QzR1b? [y/N] ", "y", "Delete /tmp/*? [y/N] ", false),
    ("Delete /tmp/tmp.a8Xk2QzR1b? [y/N] ", "y", "Delete /home/tmp.a8Xk2QzR1b? [y/N] ", false),
    ("Delete /var/tmp/x9k2j4/out? [y/N] ", "y", "Delete /var/tmp/p0q3z7/out? [y/N] ", true),
    ("Delete /var/tmp/x9k2j4/out? [y/N] ", "y", "Delete /var/tmp/x9k2j4? [y/N] ", false),
    ("Revoke 3fa9c1d2? ", "yes", "Revoke 9b2c4d1e? ", true),
    ("Revoke 3fa9c1d2? ", "yes", "Revoke everything? ", false),
    ("Revoke 3fa9c1d2? ", "yes", "Revoke all-of-them-2? ", false),
    ("Drop 0f8fad5b-d9cb-469f-a165-70867728950e? ", "y", "Drop 7c9e6679-7425-40de-944b-e07fc1f90ae7? ", true),
    ("Drop 0f8fad5b-d9cb-469f-a165-70867728950e? ", "y", "Drop customers-2026? ", false),
    ("Delete backups of 3 May? ", "y", "Delete backups of 3 customers? ", false),
    ("Delete backups of 3 May? ", "y", "Delete backups of 3 Mayors? ", false),
    ("Drop 2 Mar? ", "y", "Drop 2 databases? ", false),
    ("Note for Sat 3 May: ", "until 9", "Note for Sun 12 June: ", true),
    ("Note for Sat 3 May: ", "until 9", "Note for All 12 customers: ", false),
    ("Note for Sat 3 May: ", "until 9", "Note for Sat 3 customers: ", false),
    // A word may mean yes or no in any language.
    ("Note for Sat 3 May: ", "closed", "Note for Sun 12 June: ", false),
    ("Trust SHA256:k3Lp/q+? ", "yes", "Trust SHA256:other? ", false),
    // Identifiers have a digit, a letter and a length; identifiers with dashes are UUIDs.
    ("Revoke 3fa9c1d2? ", "y", "Revoke defaced? ", false),
    ("Revoke 3fa9c1d2? ", "y", "Revoke defacedd? ", false),
    ("Revoke 3fa9c1d2? ", "y", "Revoke --------? ", false),
    ("Revoke 3fa9c1d2? ", "y", "Revoke 3fa9c1d? ", false),
    ("Pay 3fa9c1d2? ", "y", "Pay 99999999? ", false),
    ("Delete snapshot 3fa9c1d2e4? ", "y", "Delete snapshot 2026-11-26? ", false),
    ("Detach 0f8fad5b-d9cb-469f-a165-70867728950e? ", "y", "Detach fedded-dad? ", false),
    ("Detach 0f8fad5b-d9cb-469f-a165-70867728950e? ", "y", "Detach defacedd-dead-beef-dead-beefdeadbeef? ", false),
    ("Revoke 3FA9C1D2? ", "y", "Revoke 9B2C4D1E? ", true),
    ("Revoke 3FA9C1D2? ", "y", "Revoke FACADE-D? ", false),
    ("Delete user 3fa9c1d? ", "y", "Delete user cafe-bad? ", false),
    ("Branch to delete [3fa9c1d]: ", "", "Branch to delete [defaced]: ", false),
    ("Remove /tmp/3fa9c1d/x? ", "y", "Remove /tmp/facaded/x? ", false),
    ("Delete b-1a2b3c4? ", "y", "Delete b-abacaba? ", false),
    ("Drop db-2023? ", "y", "Drop db-2026? ", false),
    ("Delete logs of feb-2024? ", "y", "Delete logs of dec-2026? ", false),
    ("Stop ec2-db1? ", "y", "Stop ec2-db9? ", false),
    ("Delete key ed25519? ", "y", "Delete key decaded? ", false),
    ("Delete /tmp/oldBuild? ", "y", "Delete /tmp/AllUsers? ", false),
    ("Overwrite /tmp/myProject/x? ", "yes", "Overwrite /tmp/Customers/x? ", false),
    ("Delete /run/user/1000/dockerSock? ", "y", "Delete /run/user/1000/sshAgent01? ", false),
    ("Delete /tmp/2024logs? ", "y", "Delete /tmp/allusers? ", false),
    ("Delete /tmp/v2backup? ", "y", "Delete /tmp/customer? ", false),
    ("Delete everything before 01feb2020? [y/N] ", "y", "Delete everything before 31dec2026? [y/N] ", false),
    ("Free 100000b of logs? ", "y", "Free 999999b of logs? ", false),
    ("Send 5000000d? ", "y", "Send 9999999d? ", false),
    ("Take 1000e50 credits? ", "y", "Take 9999e99 credits? ", false),
    ("Take 9fceb02a? ", "y", "Take 01feb202? ", false),
    ("Delete /tmp/stage1_db? [y/N] ", "y", "Delete /tmp/2prod_dbx? [y/N] ", false),
    ("Delete /tmp/build7x/out? ", "y", "Delete /tmp/live_1x/out? ", false),
    ("Delete /tmp/tmp.a8Xk2Q? ", "y", "Delete /tmp/tmp.prod_1? ", false),
    ("Type YES_5 to erase 5 disks: ", "YES_5", "Type YES_9 to erase 9 disks: ", false),
    ("Delete version 1.2? Type 1.2: ", "1.2", "Delete version 9.9? Type 9.9: ", false),
    ("Erase 5 disks (type their number): ", "05", "Erase 9 disks (type their number): ", false),
    (
        "Confirm the deletion of 3 rows with the code: ",
        "7781-x",
        "Confirm the deletion of 30000 rows with the code: ",
        false,
    ),
    ("Pay 5000 EUR? Type the address again: ", "ana@x.org", "Pay 9000 EUR? Type the address again: ", false),
    // Names of the host and its user.
    ("Reboot mill? [y/n] ", "y", "Reboot barn? [y/n] ", false),
    ("Reboot mill? [y/n] ", "y", "Reboot everything? [y/n] ", false),
    ("Send it to ana@example.org? ", "y", "Send it to everyone@example.org? ", false),
    ("Remove ana@mill? ", "y", "Remove root@prod? ", false),
    ("Delete millions? ", "y", "Delete everything? ", false),
    ("Comment for ana@mill: ", "see /srv", "Comment for bo@barn: ", true),
    ("Comment for ana@mill: ", "see /srv", "Comment for everything: ", false),
    ("Comment for ana@mill: ", "hello", "Comment for bo@barn: ", false),
    ("Delete /home/ana/old? ", "y", "Delete /home/ana/new? ", false),
    ("Delete /home/ana-old? ", "y", "Delete /home/bo? ", false),
    // Numbers where the answer is yes or no.
    ("Pay 5 EUR? [y/n] ", "y", "Pay 50000 EUR? [y/n] ", false),
    ("Pay 5 EUR? [y/n] ", "Y", "Pay 50000 EUR? [y/n] ", false),
    ("Pay 5 EUR? [yes/no] ", "yes", "Pay 50000 EUR? [yes/no] ", false),
    ("Pay 5 EUR? ", "ok", "Pay 50000 EUR? ", false),
    ("Pay 5 EUR? ", "ja", "Pay 50000 EUR? ", false),
    ("Pay 1234567 EUR? ", "y", "Pay 7654321 EUR? ", false),
    ("Scale to 3? ", "y", "Scale to 0? ", false),
    ("Allow 10.0.0.0/8? ", "y", "Allow 0.0.0.0/0? ", false),
    ("Keep 5 versions? ", "n", "Keep 0 versions? ", false),
    ("Erase disk 2, continue? ", "", "Erase disk 0, continue? ", false),
    ("Type DELETE to erase 5 rows: ", "DELETE", "Type DELETE to erase 50000 rows: ", false),
    ("Enter 1 to erase 5 rows: ", "1", "Enter 1 to erase 50000 rows: ", false),
    ("Say 'yes, do it' to erase 5 rows: ", "yes, do it", "Say 'yes, do it' to erase 50000 rows: ", false),
    ("(A)bort, (R)etry or (I)gnore 3 errors? ", "i", "(A)bort, (R)etry or (I)gnore 40 errors? ", false),
    ("Upgrade to v2.1.0? [y/n] ", "y", "Upgrade to v3.0.0? [y/n] ", false),
    ("Delete /tmp/job-17? ", "y", "Delete /tmp/job-18? ", false),
    // Numbers where it is data.
    ("Name of node 3: ", "web1", "Name of node 4: ", true),
    ("Name of node 3: ", "web", "Name of node 4: ", false),
    ("Mail of user 3: ", "a@b", "Mail of user 4: ", true),
    ("version: (1.0.0) ", "2.0.0", "version: (1.4.12) ", true),
    ("Port [8123]: ", "9000", "Port [8555]: ", true),
    ("Port [8123]: ", "9000", "Port of the database [8555]: ", false),
    ("Port [8123]: ", "8123", "Port [8555]: ", false),
    ("Port [8123]: ", "9000", "Port [all]: ", false),
    // The words around.
    ("Continue? [Y/n] ", "y", "Continue without a backup? [Y/n] ", false),
    ("Continue? [Y/n] ", "y", "Really continue? [Y/n] ", false),
    ("Continue? [Y/n] ", "y", "Continue? [Y/n/force] ", false),
    ("Continue? [Y/n] ", "y", "Continue? [y/N] ", false),
    ("Continue? [Y/n] ", "y", "Continue? [Y/n] \nErase? ", false),
    ("Continue? [Y/n] ", "y", "Continue? [Y/n]   ", true),
    ("Continue? [Y/n] ", "y", "compiling\nContinue? [Y/n] ", true),
    ("Continue? [Y/n] ", "y", "not: Continue? [Y/n] ", false),
    // Menus.
    ("1) small\n2) full\n#? ", "2", "1) small\n2) full\n#? ", true),
    ("1) small\n2) full\n#? ", "2", "1) small\n2) full\nobsolete, new menu:\n1) full\n2) wipe\n#? ", false),
    ("1) small\n2) full\n#? ", "2", "1) full\n2) wipe\nremoved entries:\n1) small\n2) full\n#? ", false),
    ("1) 18.2.0 (node)\n2) 20.1.0 (node)\n#? ", "2", "1) 18.2.0 (node)\n2) 99.9.9 (node)\n#? ", false),
    ("1) small\n2) full\nChoose [1-2]: ", "2", "1) small\n2) full\n3) wipe\nChoose [1-3]: ", false),
    ("1) yes, 3 disks 2) no\n#? ", "1", "1) yes, 9 disks 2) no\n#? ", false),
    // Comparisons take labels unchanged.
    ("1) db-aa01\n2) db-ab02\n3) db-ac03\n#? ", "2", "1) db-aa01\n2) db-ac03\n3) db-ab02\n#? ", false),
    ("1) feb-2024\n2) dec-2023\n3) dec-2025\n#? ", "2", "1) feb-2024\n2) dec-2025\n3) dec-2023\n#? ", false),
    ("1) /tmp/a\n2) /tmp/stageData1\n#? ", "2", "1) /tmp/a\n2) /tmp/customers1\n#? ", false),
    ("1) x\n2) 4fa9c1d2 test\n#? ", "2", "1) x\n2) 3fa9c1d2 test\n#? ", false),
    ("1) x\n2) y\nApplies to 1 host\n#? ", "2", "1) x\n2) y\nApplies to 9999 hosts\n#? ", false),
    ("1) x\n2) y\nApplies to 1 host\n#? ", "2", "1) x\n2) y\nApplies to 9 host\n#? ", false),
];

/// Lists in various forms, each with the answer that chooses the second entry.
const LISTS: [(&str, &str); 23] = [
    ("1- small\n2- full\n", "2"),
    ("1.small\n2.full\n", "2"),
    ("1)small\n2)full\n", "2"),
    ("[1]small\n[2]full\n", "2"),
    ("(1)small\n(2)full\n", "2"),
    ("1=small\n2=full\n", "2"),
    ("<1> small\n<2> full\n", "2"),
    ("#1 small\n#2 full\n", "2"),
    ("{1} small\n{2} full\n", "2"),
    ("small (1)\nfull (2)\n", "2"),
    ("small: 1\nfull: 2\n", "2"),
    ("| 1 | small |\n| 2 | full |\n", "2"),
    ("│ 1 │ small │\n│ 2 │ full │\n", "2"),
    ("1> small\n2> full\n", "2"),
    ("Option 1 - small\nOption 2 - full\n", "2"),
    ("Press 1 to small\nPress 2 to full\n", "2"),
    ("1, small\n2, full\n", "2"),
    ("1/ small\n2/ full\n", "2"),
    ("1__small\n2__full\n", "2"),
    ("1100) small\n1200) full\n", "1200"),
    ("a) small\nb) full\n", "b"),
    ("[a] small\n[b] full\n", "b"),
    ("a1) small\na2) full\n", "a2"),
];

#[test]
fn list_in_any_form_is_compared_as_a_whole() {
    for (list, answer) in LISTS {
        let recorded = format!("Welcome\n{list}Choice: ");
        let captured = captured(&recorded, answer);
        let continues = |printed: &str| answers(&captured, printed);
        assert!(continues(&recorded) && continues(&format!("Hello\nWelcome\n{list}Choice: ")), "{list}");
        let exchanged = list.replace("small", "x").replace("full", "small").replace('x', "full");
        assert!(!continues(&format!("Welcome\n{exchanged}Choice: ")), "{list}");
        // The recorded list stands below another one.
        assert!(!continues(&format!("Welcome\n{exchanged}old:\n{list}Choice: ")), "{list}");
    }
    // A menu of the usual form below one of another form.
    let captured = captured("Welcome\n1) small\n2) full\n#? ", "2");
    for (list, _) in LISTS.into_iter().filter(|(_, answer)| *answer == "2") {
        assert!(!answers(&captured, &format!("{list}old:\n1) small\n2) full\n#? ")), "{list}");
    }
    assert!(!answers(&captured, "2 now wipes everything.\n1) small\n2) full\n#? "));
}

#[test]
fn uncompared_menu_is_reported() {
    let reports_uncompared_menu = |recorded: &str, answer: &str| {
        captured(recorded, answer).guesses.iter().any(|guess| guess.guess.contains("is not compared"))
    };
    assert!(reports_uncompared_menu("Found 3 files\nHow many? ", "3"));
    assert!(reports_uncompared_menu("The usual one is shop\nName: ", "shop"));
    assert!(!reports_uncompared_menu("shop is the usual one\nName: ", "shop"), "the row with the word is compared");
    assert!(!reports_uncompared_menu("Found 3 files\nHow many? ", "4"));
    // Many programs ask a question that consists only of signs.
    let anything = |recorded: &str| {
        captured(recorded, "y").guesses.iter().any(|guess| guess.guess.contains("nearly any question"))
    };
    for recorded in ["> ", "[y/N] ", "Enter your choice: "] {
        assert!(anything(recorded), "{recorded}");
        assert!(!anything(&format!("Install it?\n{recorded}")), "{recorded}");
    }
    assert!(!anything("Install it? "));
}

#[test]
fn subject_above_a_bare_question_is_compared() {
    for question in ["> ", "[y/N] ", "(yes or no)\n", "Are you sure? (y/n) ", "Answer: ", "Press Enter to continue"] {
        for (above, answer, other, continues) in [
            ("Publish the draft?\n", "y", "Erase the draft?\n", false),
            ("Publish 3 drafts?\n---\n", "y", "Publish 4 drafts?\n---\n", false),
            ("Publish the draft?\n", "y", "Hello\nPublish the draft?\n", true),
            ("Which port is free?\n", "9000", "Which process is killed?\n", false),
            ("Port, now 8123:\n", "9000", "Port, now 8124:\n", true),
        ] {
            let program = |text: &str| Log::default().program("sh x", 0, &format!("{text}{question}"));
            let row = if question.ends_with('\n') { "" } else { question };
            let captured = program(above).answer(row, answer, "").command("true", 0, "").capture(&[], "/srv");
            let printed = |text: &str| format!("sh x\n{text}{question}");
            assert!(answers(&captured, &printed(above)), "{above}{question}");
            assert_eq!(answers(&captured, &printed(other)), continues, "{above}{question}: {other}");
        }
    }
    // A question with a subject, and the prompts of an interpreter.
    assert!(answers(&captured("12 packages\nContinue? [y/n] ", "y"), "13 packages\nContinue? [y/n] "));
    let log = Log::default().program("calc", 0, "calc of May\n> ").answer("> ", "1+1", "2 apples\n> ");
    let captured = log.answer("> ", "quit", "").command("true", 0, "").capture(&[], "/srv");
    assert!(answers(&captured, "calc of June\n> "));
}

#[test]
fn answer_below_a_placeholder_belongs_to_the_question_above() {
    for (recorded, others) in [
        (
            "┌  hello\n│\n◆  Project name?\n│  demo\n└\n",
            &[("Project name?", "Delete which project?"), ("◆  Project name?\n", ""), ("demo", "all")][..],
        ),
        (
            "Where does it go?\n\n╭─────╮\n│ demo │\n╰─────╯\n",
            &[("does it go", "is erased"), ("demo", "all"), ("│ demo │\n", "")],
        ),
        ("Project name:\n  demo\n> ", &[("Project name", "Erase"), ("demo", "all")]),
    ] {
        let row = if recorded.ends_with('\n') { "" } else { "> " };
        // The same frame follows the next question. The prompt of an interpreter repeats too, and is compared alone.
        let (next_row, again) = match row {
            "" => ("", recorded.replace("Project name", "Title")),
            _ => ("Title: ", "Title: ".to_owned()),
        };
        let log = Log::default().program("node x", 0, recorded).answer(row, "shop", &again);
        let log = log.answer(next_row, "Box", "");
        let captured = log.command("true", 0, "").capture(&[], "/srv");
        let printed = |text: &str| format!("node x\n{text}");
        assert!(answers(&captured, &printed(recorded)), "{recorded}");
        assert!(answers(&captured, &printed(&format!("Took 3 s\n\n{recorded}"))), "{recorded}");
        for (part, other) in others {
            assert!(!answers(&captured, &printed(&recorded.replace(part, other))), "{recorded}: {other}");
        }
    }
}

#[test]
fn ordinals_are_literal_and_decimals_are_numbers() {
    for (recorded, answer, printed, continues) in [
        ("Size of the 2nd disk: ", "100", "Size of the 3rd disk: ", false),
        ("Size of the 2nd disk: ", "100", "Size of the 22nd disk: ", false),
        ("Timeout [2.5]: ", "10", "Timeout [3]: ", true),
        ("Timeout [2.5]: ", "10", "Timeout [3.75]: ", true),
        ("Timeout [2.5]: ", "10", "Timeout [x]: ", false),
        ("Size (12.5 GB free): ", "100", "Size (112 GB free): ", true),
        ("Address [10.0.0.5]: ", "10.0.0.9", "Address [10.0.1]: ", false),
        ("Name:\t", "ana", "Name:\t", true),
        ("| Keep? ", "y", "/ Keep? ", true),
        ("| Keep? ", "y", "/ Erase? ", false),
    ] {
        let captured = captured(recorded, answer);
        assert_eq!(answers(&captured, printed), continues, "{recorded} {printed}");
        assert!(answers(&captured, recorded), "{recorded}");
    }
}

#[test]
fn possible_yes_keeps_each_number_of_its_question() {
    let yes = [
        "sure",
        "yep",
        "si",
        "absolutely",
        "jawohl",
        "tak",
        "はい",
        "YES!",
        "ok.",
        "yes please",
        "y y",
        "1",
        "0",
        "delete",
        "DELETE",
        "approve",
        "enable",
        "skip",
        "retry",
        "skip all",
        "yesterday",
        "nö",
        "да",
    ];
    for answer in yes {
        for (recorded, printed) in
            [("Delete 3 files? ", "Delete 30000 files? "), ("Action on 3 files: ", "Action on 30000 files: ")]
        {
            let captured = captured(recorded, answer);
            assert!(answers(&captured, recorded) && !answers(&captured, printed), "{answer}: {printed}");
        }
    }
    // A word from an input is data.
    let captured_with_input = |recorded: &str, answer: &str| {
        let log = Log::default().program("sh x", 0, recorded).answer(recorded, answer, "");
        log.command("true", 0, "").capture(&[("name", answer)], "/srv")
    };
    assert!(answers(&captured_with_input("Name of node 3: ", "web"), "Name of node 4: "));
    assert!(
        !answers(&captured_with_input("Pay 3 or nothing: ", "nothing"), "Pay 4 or nothing: "),
        "the question offers the answer"
    );
    // A word that differs between two recordings is data, too.
    let log = |answer| Log::default().program("sh x", 0, "Name of node 3: ").answer("Name of node 3: ", answer, "");
    let compared = log("web").capture_compared_with(Some(log("api")), &[], "/srv");
    assert!(answers(&compared, "Name of node 4: "));
}

#[test]
fn last_line_is_compared_wherever_a_program_reads() {
    for (recorded, printed) in [
        ("Really install (yes/no)\n", "Delete everything (yes/no)\n"),
        ("Proceeding with install, please answer\n", "Proceeding with deletion, please answer\n"),
        ("installing 3 files\n", "deleting 3 files\n"),
    ] {
        let log = Log::default().program("sh x", 0, recorded).answer("", "yes", "").command("true", 0, "");
        let captured = log.capture(&[], "/srv");
        assert!(answers(&captured, recorded), "{recorded}");
        assert!(!answers(&captured, printed), "{printed}");
    }
}

#[test]
fn lines_typed_at_once_into_a_program_are_reported() {
    let log =
        |text| Log::default().program("sh x", 0, "Install? ").answer("Install? ", text, "").command("true", 0, "");
    let reports_lines_at_once = |text| {
        let captured = log(text).capture(&[], "/srv");
        captured.guesses.iter().any(|guess| guess.guess.contains("lines at once"))
    };
    assert!(reports_lines_at_once("y\nshop") && !reports_lines_at_once("y"));
}

#[test]
fn answer_is_typed_only_at_its_recorded_question() {
    let wrong: Vec<_> = QUESTIONS
        .iter()
        .filter(|(recorded, answer, printed, continues)| answers(&captured(recorded, answer), printed) != *continues)
        .collect();
    assert!(wrong.is_empty(), "{wrong:#?}");
    for (recorded, answer, ..) in QUESTIONS {
        assert!(answers(&captured(recorded, answer), recorded), "the question itself: {recorded}");
    }
}

#[test]
fn client_wait_is_not_enough_if_every_word_counts() {
    let question = "Delete /tmp/old-build? [y/N] ";
    let log = |answer| {
        let log = Log::default().program("sh x", 0, question).client_wait(r"\[y/N\]").answer(question, answer, "");
        log.command("true", 0, "").capture(&[], "/srv")
    };
    let patterns = |answer| crate::procedures::parameter_values(&log(answer), "pattern").join(" then ");
    assert_eq!(patterns("y"), r"\[y/N\] then ^Delete /tmp/old-build\? \[y/N\] *\Z");
    assert_eq!(patterns("a text"), r"\[y/N\] then ^Delete /tmp/old-build\? \[y/N\] *\Z");
    // The same applies to data.
    for (pattern, recorded, answer) in [
        (": $", "Database: ", "shop"),
        ("backup", "Which backup: ", "shop"),
        (r":\s*$", "Branch: ", "x/y"),
        (".+", "Pid: ", "8080"),
        (r"\? ", "Which host? ", "web1"),
    ] {
        let log = Log::default().program("sh x", 0, recorded).client_wait(pattern).answer(recorded, answer, "");
        let captured = log.command("true", 0, "").capture(&[], "/srv");
        let last = crate::procedures::parameter_values(&captured, "pattern").pop().map(str::to_owned);
        assert_eq!(
            last.as_deref(),
            Some(
                crate::question::question(recorded, &[], &crate::KnownFacts::default(), crate::question::Leeway::Data)
                    .as_str()
            )
        );
    }
}

#[test]
fn secret_is_typed_only_at_its_recorded_question() {
    for (recorded, printed) in [
        ("ana@mill's password: ", "root@prod's password: "),
        ("ana@10.0.0.5's password: ", "ana@10.0.0.6's password: "),
        ("PIN of card 4711: ", "PIN of card 4712: "),
        ("Password: ", "Password of the other account: "),
    ] {
        let log = Log::default().program("sh x", 0, recorded).secret(recorded, "").command("true", 0, "");
        let captured = log.capture(&[], "/srv");
        assert!(answers(&captured, recorded) && !answers(&captured, printed), "{recorded}");
    }
}

/// Questions in two recordings and a later one, with true if the machine types the answer to the later one.
#[test]
fn differing_recordings_keep_their_common_words() {
    for (one, other, printed, continues) in [
        ("Keep 5 of them? [y/n] ", "Keep 7 of them? [y/n] ", "Keep 12 of them? [y/n] ", true),
        ("Keep 5 of them? [y/n] ", "Keep 7 of them? [y/n] ", "Keep none of them? [y/n] ", false),
        ("Keep 5 of 9? [y/n] ", "Keep 7 of 9? [y/n] ", "Keep 7 of 8? [y/n] ", false),
        ("Paint it red? [y/n] ", "Paint it green? [y/n] ", "Paint it blue? [y/n] ", true),
        ("Paint it red? [y/n] ", "Paint it green? [y/n] ", "Paint it /etc? [y/n] ", false),
        ("Drop build-12? [y/n] ", "Drop build-13? [y/n] ", "Drop build-140? [y/n] ", true),
        ("Drop build-12? [y/n] ", "Drop build-13? [y/n] ", "Drop everything? [y/n] ", false),
        ("Clear /srv/a/one? [y/n] ", "Clear /srv/a/two? [y/n] ", "Clear /srv/a/three? [y/n] ", true),
        ("Clear /srv/a/one? [y/n] ", "Clear /srv/a/two? [y/n] ", "Clear /srv? [y/n] ", false),
    ] {
        let log = |asked| Log::default().program("sh x", 0, asked).answer(asked, "y", "").command("true", 0, "");
        let captured = log(one).capture_compared_with(Some(log(other)), &[], "/srv");
        assert_eq!(answers(&captured, printed), continues, "{one} {printed}");
        assert!(answers(&captured, one) && answers(&captured, other), "{one}");
    }
}

#[test]
fn value_is_searched_only_after_it_was_typed() {
    let pattern = |log: Log, inputs: &[(&str, &str)]| {
        let captured = log.capture(inputs, "/srv");
        crate::procedures::parameter_values(&captured, "pattern").into_iter().map(str::to_owned).collect::<Vec<_>>()
    };
    let database = Log::default()
        .program("sh x", 0, "Database (pg/sqlite): ")
        .answer("Database (pg/sqlite): ", "pg", "User of pg: ")
        .answer("User of pg: ", "ana", "");
    let patterns = pattern(database, &[("DB", "pg")]);
    assert_eq!(patterns, [r"^Database \(pg/sqlite\): *\Z", r"^User of {DB|regex}: *\Z"]);
    // The line that starts the program has it before.
    let started_with_value = Log::default().program("sh x pg", 0, "Drop pg? ").answer("Drop pg? ", "y", "");
    assert_eq!(pattern(started_with_value, &[("DB", "pg")]), [r"^Drop {DB|regex}\? *\Z"]);
    // The same for the text that a client waited for.
    let waited = Log::default().program("sh x", 0, "a pg or b\n? ").client_wait("pg or b").answer("? ", "pg", "");
    assert_eq!(pattern(waited, &[("DB", "pg")])[0], "pg or b");
    // An entry of a menu names the value before its input.
    let menu = "[pg] small\n[my] large\nWhich? ";
    let menu = Log::default().program("sh x", 0, menu).answer("Which? ", "pg", "");
    assert_eq!(pattern(menu, &[("DB", "pg")]), [r"^Which\? *\Z"]);
    // A directory is known from the beginning.
    let directory =
        Log::default().program("sh x", 0, "Clean /home/ana/shop? ").answer("Clean /home/ana/shop? ", "y", "");
    let captured = directory.capture(&[], "/home/ana/shop");
    assert_eq!(crate::procedures::parameter_values(&captured, "pattern"), [r"^Clean {PWD|regex}\? *\Z"]);
}
