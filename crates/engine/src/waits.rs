//! Requests that wait for a result at the backend. Each of them holds a stream, and with HTTP/1 a connection, from the
//! gateway to the backend for up to `recovery_wait_ms`, so a caller and a tenant may have so many at once and no more
//! (docs/contract.md section 6).

use crate::codes::Reason;
use crate::identity::Identity;
use crate::key;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// How many requests of one caller (tenant, project and subject) may wait for results at once, in a worker.
const WAITS_OF_CALLER: u64 = 16;
/// How many of one tenant.
const WAITS_OF_TENANT: u64 = 64;

/// Who waits, shared by all requests of a configuration in a worker. An entry is there only while somebody waits, so there are at
/// most two for each request.
#[derive(Debug, Clone, Default)]
pub(crate) struct Waits(Arc<Mutex<Counts>>);

/// Numbers of waits, each with the beginning of the keys of a tenant or of a caller; sorted by it
type Counts = Vec<(String, u64)>;

/// A request that waits. Its place is given back when this is dropped.
#[derive(Debug)]
pub(crate) struct WaitPlace {
    waits: Waits,
    /// The tenant, and the caller
    who: [String; 2],
}

impl Waits {
    /// Takes a place for a request of this caller.
    ///
    /// # Errors
    /// The caller, or its tenant, has no place left; the reason for logs.
    pub(crate) fn begin(&self, caller: &Identity) -> Result<WaitPlace, Reason> {
        let tenant = key::prefix(&caller.tenant, None);
        let caller = key::prefix(&caller.tenant, Some((&caller.project, Some(&caller.subject))));
        let mut counts = self.counts();
        let waiting = |who: &str| find(&counts, who).ok().and_then(|at| counts.get(at)).map_or(0, |(_, count)| *count);
        if waiting(&caller) >= WAITS_OF_CALLER {
            return Err(Reason::CallerWaitsFull);
        }
        if waiting(&tenant) >= WAITS_OF_TENANT {
            return Err(Reason::TenantWaitsFull);
        }
        let who = [tenant, caller];
        for who in &who {
            match find(&counts, who) {
                Ok(at) => counts.get_mut(at).into_iter().for_each(|(_, count)| *count += 1),
                Err(at) => counts.insert(at, (who.clone(), 1)),
            }
        }
        Ok(WaitPlace { waits: self.clone(), who })
    }

    fn counts(&self) -> MutexGuard<'_, Counts> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The place of an entry, or the one where it belongs.
fn find(counts: &Counts, who: &str) -> Result<usize, usize> {
    counts.binary_search_by(|(other, _)| other.as_str().cmp(who))
}

impl Drop for WaitPlace {
    fn drop(&mut self) {
        let mut counts = self.waits.counts();
        for who in &self.who {
            if let Ok(at) = find(&counts, who) {
                match counts.get_mut(at) {
                    Some((_, count @ 2..)) => *count -= 1,
                    _ => drop(counts.remove(at)),
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::identity::{Project, Subject, Tenant};

    fn identity(tenant: &str, project: &str, user: &str) -> Identity {
        Identity {
            tenant: Tenant::parse(tenant.as_bytes()).unwrap(),
            project: Project::parse(project.as_bytes()).unwrap(),
            subject: Subject::new("user", user.as_bytes()).unwrap(),
        }
    }

    #[test]
    fn a_caller_and_a_tenant_have_so_many_places() {
        let waits = Waits::default();
        let begin = |tenant, project, user| waits.begin(&identity(tenant, project, user));
        let take = |project, user, count| (0..count).map(|_| begin("acme", project, user).unwrap()).collect::<Vec<_>>();
        let mut first = take("shop", "alice", WAITS_OF_CALLER);
        assert_eq!(begin("acme", "shop", "alice").unwrap_err(), Reason::CallerWaitsFull);
        // The same subject of another project is another caller of the same tenant.
        let _second = take("health", "alice", WAITS_OF_CALLER);
        let _third = take("shop", "carol", WAITS_OF_CALLER);
        let _fourth = take("shop", "dave", WAITS_OF_TENANT - 3 * WAITS_OF_CALLER);
        assert_eq!(begin("acme", "shop", "bob").unwrap_err(), Reason::TenantWaitsFull);
        let _other = begin("other", "shop", "alice").unwrap();
        first.pop();
        let _again = begin("acme", "shop", "bob").unwrap();
        assert_eq!(begin("acme", "shop", "alice").unwrap_err(), Reason::TenantWaitsFull);
    }

    #[test]
    fn nothing_stays_when_nobody_waits() {
        let waits = Waits::default();
        let users = ["alice", "bob", "carol", "dave", "erin"];
        let places: Vec<_> =
            (0..200).filter_map(|n| waits.begin(&identity("acme", "shop", users[n % 5])).ok()).collect();
        assert_eq!(places.len() as u64, WAITS_OF_TENANT);
        drop(places);
        assert_eq!(waits.counts().len(), 0);
    }
}
