//! Changes what a plan says.

use super::connection::Admin;
use super::durations::seconds_of;
use super::plan::{Plan, Row, State, clamped};

impl Plan {
    /// Changes what the admin API can change, and reads back what Restate has then. A longer retention of the guard comes
    /// before that of the services, and a shorter one after it. A change after which the guard would forget a request before
    /// the backend forgets its result is not made, also if an earlier change has failed.
    ///
    /// # Errors
    /// There is no reply. What has been changed before stays.
    pub(crate) fn apply(&mut self, admin: &Admin) -> Result<(), String> {
        let place = |row: &Row| match (row.declared.is_of_guard(), row.grows()) {
            (true, true) => 0,
            (true, false) => 2,
            (false, _) => 1,
        };
        let mut services = admin.services()?;
        let mut rows: Vec<&mut Row> = self.rows.iter_mut().filter(|row| row.is_change()).collect();
        rows.sort_by_key(|row| place(row));
        for row in rows {
            let seconds = row.declared.seconds;
            if let Some(reason) = self.order.objection(&row.declared.service, seconds, &services) {
                row.state = State::Refused;
                row.notes.insert(0, reason);
                continue;
            }
            let Some(service) = services.iter().find(|service| *service.name == *row.declared.service) else {
                continue;
            };
            if let Err(refusal) = admin.set_retention(&service.name, seconds)? {
                row.state = State::Refused;
                row.notes =
                    vec![format!("Restate refused the change with status {}: {}", refusal.status, refusal.message)];
                continue;
            }
            services = admin.services()?;
            let service = services.iter().find(|service| *service.name == *row.declared.service);
            let before = row.actual.take();
            row.actual = service.map(|service| service.retention().to_owned());
            row.applied = row.actual != before;
            (row.state, row.notes) = match row.actual.as_deref().and_then(seconds_of) {
                Some(actual) if actual == seconds => (State::Equal, Vec::new()),
                Some(actual) if actual < seconds => clamped(actual, seconds),
                _ => (State::Refused, vec!["Restate accepted the change, but has another value now".to_owned()]),
            };
        }
        Ok(())
    }
}

impl Row {
    /// Whether the new retention is surely a longer one.
    fn grows(&self) -> bool {
        let actual = self.actual.as_deref().and_then(seconds_of);
        actual.is_some_and(|actual| self.declared.seconds > actual)
    }
}
