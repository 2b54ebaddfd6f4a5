//! Checks of the rules of notifications.

use steplatch_notify::{Way, bus_address};
use steplatch_protocol::{DaemonPaths, ListNotifications};

use super::{Checks, ask, reach};
use crate::clients::UserPaths;
use crate::commands::notify::NO_RULES;
use crate::print::visible;
use crate::settings::Settings;

/// Next step after a fault of a rule.
const FIX: &str = "fix it, and check again with: steplatch notify test";

pub(super) async fn check(daemon_paths: &DaemonPaths, user_paths: &UserPaths) -> Checks {
    let mut checks = Checks::for_section("Notifications");
    let Ok(settings) = Settings::load() else { return checks };
    if settings.notifications.is_empty() {
        checks.add_absent("notifications", NO_RULES);
        return checks;
    }
    let known = match ask(daemon_paths, ListNotifications {}).await {
        Ok(reply) => reply.rules,
        Err(error) => {
            checks.add_problem("notifications", error, "check the daemon with: steplatch daemon status");
            return checks;
        }
    };
    for rule in settings.notifications.iter().map(|setting| &setting.rule) {
        let about = &rule.name;
        if let Err(reason) = check_way(&rule.way, user_paths).await {
            checks.add_warning(about, format!("{} reaches nobody: {reason}", rule.way.name()), FIX);
            continue;
        }
        match known.iter().find(|known| known.name == rule.name) {
            None => checks.add_warning(
                about,
                "the daemon does not know it: the daemon was started with other settings",
                "restart it with: steplatch daemon restart",
            ),
            Some(state) => match &state.last_error {
                Some(error) => {
                    let message = format!("the last delivery failed, and {} wait: {}", state.pending, visible(error));
                    checks.add_warning(about, message, FIX);
                }
                None => {
                    let (way, kinds) = (rule.way.name(), state.when.join(", "));
                    checks.add_good(about, format!("{way} {} of: {kinds}", visible(&state.destination)));
                }
            },
        }
    }
    checks
}

/// Checks that a way may reach a person. The error text is a clause without a capital letter.
async fn check_way(way: &Way, user_paths: &UserPaths) -> Result<(), String> {
    match way {
        Way::Webhook { url, .. } | Way::Ntfy { url, .. } => reach::check_address(url).await,
        Way::Command(arguments) => {
            let program = arguments.first().map(String::as_str).unwrap_or_default();
            let missing = || format!("the program '{}' is not found", visible(program));
            user_paths.find(program).map(drop).ok_or_else(missing)
        }
        Way::Desktop => bus_address().map(drop).map_err(|error| error.to_string()),
        Way::Terminal => Ok(()),
    }
}
