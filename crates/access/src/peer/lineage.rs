//! The ancestors of a process. Uncertain data is never used.
//!
//! Processes exit, get new parents and leave their ids to new ones during the walk. A link between a child and its
//! parent counts only if both existed, the parent is older, and the child still has that parent afterwards. An
//! incomplete walk reports the reason ([`Cut`]), and a decision that relies on it must be a refusal.

use super::table::{Evidence, ProcessTable, Status};

/// Maximum number of ancestors to follow. A person's process never has that many.
const MAX_ANCESTORS: usize = 400;

/// The ancestor of all processes, except those whose parent is in another namespace.
const INIT_PID: i32 = 1;

/// Maximum number of reads of a link that keeps changing.
const MAX_ATTEMPTS: usize = 5;

/// A process at the time of the read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Process {
    pub(crate) pid: i32,
    /// Start time, in clock ticks since the system start: proc_pid_stat(5), field 22. With the id, it identifies a
    /// process.
    pub(crate) started: u64,
    pub(crate) evidence: Evidence,
}

/// The known ancestors of a process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Lineage {
    /// The process and its known ancestors.
    pub(crate) known: Vec<Process>,
    /// Reason why the list is incomplete, if it is.
    pub(crate) cut: Option<Cut>,
}

impl Lineage {
    /// Returns the lineage of an unknown process.
    pub(crate) fn unknown(cut: Cut) -> Self {
        Self { known: Vec::new(), cut: Some(cut) }
    }
}

/// Reason for unknown ancestors of a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Cut {
    /// The process had exited before the read.
    Gone,
    /// The process has more ancestors than the walk follows.
    TooDeep,
    /// The ancestors changed faster than they could be read.
    Changing,
    /// An ancestor exists but is hidden from this process: `/proc` hides processes of other users (`hidepid`).
    Hidden,
}

/// Reads the lineage of a process.
pub(crate) fn read(table: &impl ProcessTable, pid: i32) -> Lineage {
    let Some(status) = table.status(pid).filter(|status| !status.has_exited) else {
        return Lineage::unknown(Cut::Gone);
    };
    let mut links = vec![(pid, status)];
    let mut cut = walk(table, &mut links).err();
    let process =
        |&(pid, status): &(i32, Status)| Process { pid, started: status.started, evidence: table.evidence(pid) };
    let known: Vec<Process> = links.iter().map(process).collect();
    // The data belongs to these processes only if they have existed throughout the walk.
    let current_status =
        |process: &Process| table.status(process.pid).filter(|status| status.started == process.started);
    if current_status(&known[0]).is_none_or(|status| status.has_exited) {
        cut = Some(Cut::Gone);
    } else if known.iter().any(|process| process.pid != INIT_PID && current_status(process).is_none()) {
        cut = cut.or(Some(Cut::Changing));
    }
    Lineage { known, cut }
}

/// Follows the parents of the last process of `links` and adds them.
fn walk(table: &impl ProcessTable, links: &mut Vec<(i32, Status)>) -> Result<(), Cut> {
    loop {
        let (child, mut status) = links[links.len() - 1];
        if status.parent == 0 {
            return Ok(());
        }
        if links.len() == MAX_ANCESTORS {
            return Err(Cut::TooDeep);
        }
        let (mut attempts, mut is_hidden) = (0, true);
        let parent = loop {
            if attempts == MAX_ATTEMPTS {
                return match is_hidden {
                    // The status of the first process contains nothing that could be hidden.
                    true if status.parent == INIT_PID => Ok(()),
                    true if table.hides_others() => Err(Cut::Hidden),
                    _ => Err(Cut::Changing),
                };
            }
            attempts += 1;
            let parent = table.status(status.parent);
            let current = match table.status(child) {
                Some(current) if current.started == status.started => current,
                // An exited process cannot be distinguished from another process that has taken its id.
                _ => return Err(if links.len() == 1 { Cut::Gone } else { Cut::Changing }),
            };
            match parent {
                Some(parent) if current.parent == status.parent && parent.started <= status.started => {
                    break (status.parent, parent);
                }
                _ => {
                    is_hidden &= parent.is_none() && current.parent == status.parent;
                    status = current;
                }
            }
            if status.parent == 0 {
                return Err(Cut::Changing);
            }
        };
        links.push(parent);
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;
    use std::collections::HashMap;

    use super::super::table::Status;
    use super::*;

    /// A table whose contents change after given numbers of reads.
    #[derive(Default)]
    struct Table {
        processes: RefCell<HashMap<i32, Status>>,
        changes: RefCell<Vec<(usize, i32, Option<Status>)>>,
        read_count: RefCell<usize>,
        hides_others: bool,
    }

    impl Table {
        fn new(processes: &[(i32, i32, u64)]) -> Self {
            let status = |parent, started| Status { parent, started, has_exited: false };
            let processes = processes.iter().map(|&(pid, parent, started)| (pid, status(parent, started))).collect();
            Self { processes: RefCell::new(processes), ..Self::default() }
        }

        fn with_change(self, after_reads: usize, pid: i32, status: Option<(i32, u64)>) -> Self {
            let status = status.map(|(parent, started)| Status { parent, started, has_exited: false });
            self.changes.borrow_mut().push((after_reads, pid, status));
            self
        }
    }

    impl ProcessTable for Table {
        fn status(&self, pid: i32) -> Option<Status> {
            *self.read_count.borrow_mut() += 1;
            let read_count = *self.read_count.borrow();
            for (_, pid, status) in self.changes.borrow_mut().extract_if(.., |change| change.0 < read_count) {
                match status {
                    Some(status) => drop(self.processes.borrow_mut().insert(pid, status)),
                    None => drop(self.processes.borrow_mut().remove(&pid)),
                }
            }
            self.processes.borrow().get(&pid).copied()
        }

        fn hides_others(&self) -> bool {
            self.hides_others
        }

        fn evidence(&self, pid: i32) -> Evidence {
            Evidence { mark: (pid == 30).then(|| "term_x".to_owned()), may_be_in_group: pid == 20 }
        }
    }

    fn ids(lineage: &Lineage) -> Result<Vec<i32>, Cut> {
        match lineage.cut {
            None => Ok(lineage.known.iter().map(|process| process.pid).collect()),
            Some(cut) => Err(cut),
        }
    }

    const FAMILY: [(i32, i32, u64); 4] = [(1, 0, 0), (20, 1, 5), (30, 20, 6), (40, 30, 6)];

    #[test]
    fn lineage_ends_at_process_without_parent() {
        let Lineage { known, cut } = read(&Table::new(&FAMILY), 40);
        let summary =
            |process: &Process| (process.pid, process.evidence.mark.is_some(), process.evidence.may_be_in_group);
        let summaries: Vec<_> = known.iter().map(summary).collect();
        assert_eq!(summaries, [(40, false, false), (30, true, false), (20, false, true), (1, false, false)]);
        assert_eq!(cut, None);
    }

    #[test]
    fn exited_process_has_no_lineage() {
        assert_eq!(read(&Table::new(&FAMILY), 50), Lineage::unknown(Cut::Gone));
        for after_reads in 1..=7 {
            let table = Table::new(&FAMILY).with_change(after_reads, 40, None);
            assert_eq!(ids(&read(&table, 40)), Err(Cut::Gone), "after {after_reads} reads");
        }
    }

    #[test]
    fn reused_process_id_is_detected() {
        for after_reads in 1..=7 {
            // The id now belongs to a process with another parent.
            let table = Table::new(&FAMILY).with_change(after_reads, 40, Some((1, 99)));
            assert_eq!(ids(&read(&table, 40)), Err(Cut::Gone), "after {after_reads} reads");
        }
        // A parent that is younger than its child is another process.
        let table = Table::new(&[(1, 0, 0), (30, 1, 9), (40, 30, 6)]);
        assert_eq!(ids(&read(&table, 40)), Err(Cut::Changing));
    }

    #[test]
    fn adoption_during_the_walk_is_followed() {
        // Process 30 exits after 40 was read; 20 adopts 40.
        let table = Table::new(&FAMILY).with_change(1, 30, None).with_change(1, 40, Some((20, 6)));
        assert_eq!(ids(&read(&table, 40)), Ok(vec![40, 20, 1]));
        // Process 30 exits after its child was linked to it, so the parent of process 30 is unknown.
        let table = Table::new(&FAMILY).with_change(3, 30, None).with_change(3, 40, Some((20, 6)));
        assert_eq!(ids(&read(&table, 40)), Err(Cut::Changing));
        // Process 30 exits after all were linked, so the entry may belong to another process.
        let table = Table::new(&FAMILY).with_change(9, 30, None).with_change(9, 40, Some((20, 6)));
        assert_eq!(ids(&read(&table, 40)), Err(Cut::Changing));
    }

    #[test]
    fn hidden_ancestor_differs_from_exited_ancestor() {
        let family = [(30, 20, 6), (40, 30, 6)];
        assert_eq!(ids(&read(&Table::new(&family), 40)), Err(Cut::Changing), "no processes are hidden");
        let hiding = |family: &[(i32, i32, u64)]| Table { hides_others: true, ..Table::new(family) };
        let Lineage { known, cut } = read(&hiding(&family), 40);
        assert_eq!((known.len(), cut), (2, Some(Cut::Hidden)), "the visible ancestors are returned");
        // All processes descend from the first one.
        assert_eq!(ids(&read(&hiding(&[(30, 1, 6), (40, 30, 6)]), 40)), Ok(vec![40, 30]));
    }

    #[test]
    fn parent_with_exited_first_thread_is_followed() {
        let table = Table::new(&FAMILY);
        table.processes.borrow_mut().get_mut(&30).unwrap().has_exited = true;
        assert_eq!(ids(&read(&table, 40)), Ok(vec![40, 30, 20, 1]));
        assert_eq!(ids(&read(&table, 30)), Err(Cut::Gone));
    }

    #[test]
    fn walk_ends_at_the_maximum_number_of_ancestors() {
        let chain = |length: i32| -> Vec<_> { (1..=length).map(|pid| (pid, pid - 1, 1)).collect() };
        let max_ancestors = i32::try_from(MAX_ANCESTORS).unwrap();
        assert_eq!(ids(&read(&Table::new(&chain(max_ancestors)), max_ancestors)).unwrap().len(), MAX_ANCESTORS);
        assert_eq!(ids(&read(&Table::new(&chain(max_ancestors + 1)), max_ancestors + 1)), Err(Cut::TooDeep));
    }

    #[test]
    fn walk_of_a_constantly_changing_table_ends() {
        struct ChangingTable(RefCell<i32>);
        impl ProcessTable for ChangingTable {
            fn status(&self, pid: i32) -> Option<Status> {
                *self.0.borrow_mut() += 1;
                (pid == 40).then(|| Status { parent: *self.0.borrow() + 100, started: 1, has_exited: false })
            }
            fn hides_others(&self) -> bool {
                false
            }
            fn evidence(&self, _: i32) -> Evidence {
                Evidence::default()
            }
        }
        assert_eq!(ids(&read(&ChangingTable(RefCell::new(0)), 40)), Err(Cut::Changing));
    }
}
