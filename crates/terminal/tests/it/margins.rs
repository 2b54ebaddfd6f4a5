//! Commands and output that end at the right margin.

use super::inner_shells::{entry, start};
use super::shells::{SHELLS, World};

#[tokio::test]
async fn tab_at_the_margin_is_part_of_the_output() {
    for shell in SHELLS {
        let world = World::new();
        let session = world.open(&[shell]).await;
        let columns: usize = session.output_of("tput cols").await.0.trim().parse().unwrap();
        for digits in columns - 9..=columns + 1 {
            let output = format!("{}\tx\t\ty\n", "0".repeat(digits));
            let command = format!("printf '%0{digits}d\\tx\\t\\ty\\n' 0");
            assert_eq!(session.output_of(&command).await, (output, Some(0)), "{shell}: {digits} digits");
        }
    }
}

#[tokio::test]
async fn command_filling_its_rows_is_not_part_of_its_output() {
    for (program, before, after) in [
        ("bash --norc", "echo ", ""),
        ("dash", "echo ", ""),
        ("python3 -q", "print('", "')"),
        ("sqlite3", "select '", "';"),
    ] {
        let world = World::new();
        let session = world.open(&["bash"]).await;
        let columns: usize = session.output_of("tput cols").await.0.trim().parse().unwrap();
        start(&session, &format!("PS1='$ ' {program}")).await;
        let prompt = match program {
            "python3 -q" => ">>> ".len(),
            "sqlite3" => "sqlite> ".len(),
            _ => "$ ".len(),
        };
        let around = prompt + before.len() + after.len();
        for width in [columns - 1, columns, columns + 1, 2 * columns] {
            let text = "x".repeat(width - around);
            let result = session.0.run(entry(&format!("{before}{text}{after}"))).await;
            let result = result.unwrap_or_else(|error| panic!("{program}, {width}: {error}"));
            assert_eq!(result.output, format!("{text}\n"), "{program}, {width} columns");
        }
    }
}
