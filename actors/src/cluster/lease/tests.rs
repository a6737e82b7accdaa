//! One rule of a lease in each test.

use super::*;
use Action::{Delete, Drain, Look, Own, Put, Stop};

fn holder(node: &str, boot: u128, epoch: u64) -> Holder {
    Holder { node: node.parse().unwrap(), boot: Boot(boot), epoch: Epoch(epoch) }
}

fn free(revision: u64) -> Seen {
    Seen::Free { revision }
}

fn held(revision: u64, holder: Holder) -> Seen {
    Seen::Held { revision, holder: Some(holder) }
}

fn looked(seen: Seen, highest: u64) -> Input {
    Input::Looked { seen, highest: Epoch(highest) }
}

fn stored(revision: u64) -> Input {
    Input::Wrote(Outcome::Stored { revision })
}

fn mine(epoch: u64, expected: u64) -> Action {
    Put { holder: holder("a", 1, epoch), expected }
}

/// A node `a` in its life 1, at a time.
struct At(Lease, u64);

impl At {
    fn new() -> Self {
        Self(Lease::new("a".parse().unwrap(), Boot(1)), 0)
    }

    /// Owner since 0 under `epoch` by revision 1.
    fn owner(epoch: u64) -> Self {
        let mut at = Self::new();
        assert_eq!(at.gets(Input::Placed(Belongs::Here)), [Look]);
        assert_eq!(at.gets(looked(free(0), epoch - 1)), [mine(epoch, 0)]);
        assert_eq!(at.gets(stored(1)), [Own(Epoch(epoch))]);
        at
    }

    fn gets(&mut self, input: Input) -> Vec<Action> {
        self.0.step(Uptime(self.1), input)
    }

    fn at(&mut self, now: u64, input: Input) -> Vec<Action> {
        self.1 = now;
        self.gets(input)
    }

    fn epoch(&self) -> Option<u64> {
        self.0.epoch(Uptime(self.1)).map(|epoch| epoch.0)
    }
}

#[test]
fn a_free_partition_is_looked_at_and_taken_above_every_epoch() {
    let mut at = At::new();
    assert_eq!(at.gets(Input::Tick), []);
    assert_eq!(at.0.next(), None);
    assert_eq!(at.gets(Input::Placed(Belongs::Here)), [Look]);
    assert_eq!(at.gets(looked(free(7), 4)), [mine(5, 7)], "the marker's revision is expected");
    assert_eq!(at.epoch(), None, "asking is not having");
    assert_eq!(at.at(100, stored(9)), [Own(Epoch(5))]);
    assert_eq!(at.epoch(), Some(5));
    assert_eq!(at.0.next(), Some(Uptime(3_000)));
}

#[test]
fn a_partition_that_belongs_elsewhere_is_left_alone() {
    let mut at = At::new();
    assert_eq!(at.gets(Input::Watched(free(7))), []);
    assert_eq!(at.at(90_000, Input::Tick), []);
    assert_eq!(at.0.next(), None);
}

#[test]
fn heartbeats_name_the_revision_before_and_move_the_horizon_from_their_send() {
    let mut at = At::owner(1);
    assert_eq!(at.at(2_999, Input::Tick), []);
    assert_eq!(at.at(3_000, Input::Tick), [mine(1, 1)]);
    assert_eq!(at.at(4_500, Input::Tick), [], "one write at a time");
    assert_eq!(at.at(5_900, stored(2)), []);
    assert_eq!(at.0.horizon(), Horizon::Until(Uptime(15_000)));
    assert_eq!(at.at(6_000, Input::Tick), [mine(1, 2)]);
}

#[test]
fn an_owner_stops_by_itself_twelve_seconds_after_its_last_good_send() {
    let mut at = At::owner(1);
    assert_eq!(at.at(3_000, Input::Tick), [mine(1, 1)]);
    assert_eq!(at.at(8_000, Input::Wrote(Outcome::Unknown)), [Look]);
    assert_eq!(at.at(8_100, Input::LookFailed), []);
    assert_eq!(at.0.next(), Some(Uptime(8_500)));
    assert_eq!(at.at(8_500, Input::Tick), [Look]);
    assert_eq!(at.at(11_999, Input::LookFailed), [Look]);
    assert_eq!(at.epoch(), Some(1));
    assert_eq!(at.at(12_000, Input::Tick), [Stop(Why::HeartbeatsFailed)]);
    assert_eq!(at.epoch(), None);
    // The value of its former tenure still stands: nobody else can have begun, but the epoch rises.
    assert_eq!(at.gets(looked(held(1, holder("a", 1, 1)), 1)), [mine(2, 1)]);
    assert_eq!(at.at(12_100, stored(2)), [Own(Epoch(2))]);
}

#[test]
fn a_paused_owner_stops_before_it_does_anything_else() {
    for input in [stored(2), Input::Tick, Input::Met(Epoch(5)), Input::Drained] {
        let mut at = At::owner(1);
        assert_eq!(at.at(3_000, Input::Tick), [mine(1, 1)]);
        let actions = at.at(60_000, input);
        assert_eq!(actions.first(), Some(&Stop(Why::HeartbeatsFailed)));
        assert_eq!(at.epoch(), None);
    }
}

#[test]
fn a_heartbeat_in_doubt_counts_from_the_first_send_in_doubt_once_it_is_seen() {
    let mut at = At::owner(1);
    assert_eq!(at.at(3_000, Input::Tick), [mine(1, 1)]);
    assert_eq!(at.at(5_000, Input::Wrote(Outcome::Unknown)), [Look]);
    assert_eq!(at.at(5_100, looked(held(1, holder("a", 1, 1)), 0)), []);
    assert_eq!(at.0.horizon(), Horizon::Until(Uptime(12_000)), "it was not seen");
    assert_eq!(at.at(6_000, Input::Tick), [mine(1, 1)]);
    assert_eq!(at.at(8_000, Input::Wrote(Outcome::Refused)), [Look]);
    assert_eq!(at.at(8_050, Input::Watched(held(2, holder("a", 1, 1)))), []);
    assert_eq!(at.0.horizon(), Horizon::Until(Uptime(12_000)), "old news could say that");
    assert_eq!(at.at(8_100, looked(held(2, holder("a", 1, 1)), 0)), []);
    assert_eq!(at.0.horizon(), Horizon::Until(Uptime(15_000)));
    assert_eq!(at.at(9_000, Input::Tick), [mine(1, 2)]);
}

#[test]
fn an_owner_that_sees_another_holder_stops() {
    let mut at = At::owner(1);
    assert_eq!(at.at(10, Input::Watched(held(2, holder("b", 9, 2)))), [Stop(Why::Taken)]);
    // A later life of the same node is another holder.
    let mut at = At::owner(1);
    assert_eq!(at.at(10, Input::Watched(held(2, holder("a", 2, 2)))), [Stop(Why::Taken)]);
    let mut at = At::owner(1);
    let unreadable = Seen::Held { revision: 2, holder: None };
    assert_eq!(at.at(10, Input::Watched(unreadable)), [Stop(Why::Taken)]);
    let mut at = At::owner(1);
    assert_eq!(at.at(10, Input::Watched(held(1, holder("b", 9, 2)))), [], "old news");
}

#[test]
fn an_owner_that_meets_a_higher_epoch_raises_its_own_and_keeps_its_lease() {
    for (met, raised) in [(4, Some(5)), (9, Some(10)), (3, None)] {
        let mut at = At::owner(4);
        let put = raised.map(|epoch| mine(epoch, 1));
        assert_eq!(at.at(10, Input::Met(Epoch(met))), Vec::from_iter(put));
        assert_eq!(at.epoch(), Some(4), "until it stands");
        let own = raised.map(|epoch| Own(Epoch(epoch)));
        let stands = raised.map_or(Input::Tick, |_| stored(2));
        assert_eq!(at.at(20, stands), Vec::from_iter(own));
    }
}

#[test]
fn a_raise_in_doubt_is_believed_when_it_is_seen() {
    let mut at = At::owner(4);
    assert_eq!(at.at(1_010, Input::Met(Epoch(6))), [mine(7, 1)]);
    assert_eq!(at.at(1_020, Input::Wrote(Outcome::Unknown)), [Look]);
    assert_eq!(at.at(1_030, looked(held(2, holder("a", 1, 7)), 6)), [Own(Epoch(7))]);
    // What is met while a write is under way is not forgotten.
    assert_eq!(at.at(4_010, Input::Tick), [mine(7, 2)]);
    assert_eq!(at.at(4_020, Input::Met(Epoch(8))), []);
    assert_eq!(at.at(4_030, stored(3)), [mine(9, 3)]);
    assert_eq!(at.at(4_040, stored(4)), [Own(Epoch(9))]);
}

#[test]
fn a_raise_that_is_refused_is_no_raise() {
    let mut at = At::owner(4);
    assert_eq!(at.at(1_010, Input::Met(Epoch(6))), [mine(7, 1)]);
    assert_eq!(at.at(1_020, Input::Wrote(Outcome::Refused)), [Look]);
    assert_eq!(at.at(1_030, looked(held(5, holder("b", 3, 6)), 6)), [Stop(Why::Taken)]);
}

#[test]
fn a_value_that_another_node_holds_is_taken_when_it_expires_or_when_it_stands_still() {
    let mut at = At::new();
    let theirs = held(5, holder("b", 3, 6));
    assert_eq!(at.gets(Input::Placed(Belongs::Here)), [Look]);
    assert_eq!(at.gets(looked(theirs.clone(), 2)), []);
    assert_eq!(at.0.next(), Some(Uptime(20_000)));
    assert_eq!(at.at(15_000, Input::Watched(free(6))), [Look]);
    assert_eq!(at.gets(looked(free(6), 2)), [mine(7, 6)]);

    let mut at = At::new();
    let _look = at.gets(Input::Placed(Belongs::Here));
    assert_eq!(at.gets(looked(theirs.clone(), 2)), []);
    assert_eq!(at.at(19_999, Input::Watched(theirs.clone())), []);
    assert_eq!(at.at(20_000, Input::Tick), [Look]);
    assert_eq!(at.gets(looked(theirs.clone(), 2)), [mine(7, 5)]);

    let mut at = At::new();
    let _look = at.gets(Input::Placed(Belongs::Here));
    assert_eq!(at.gets(looked(theirs, 2)), []);
    assert_eq!(at.at(19_000, Input::Watched(held(6, holder("b", 3, 6)))), [], "a sign of life");
    assert_eq!(at.at(38_999, Input::Tick), []);
}

#[test]
fn a_silent_owner_is_replaced_at_once_unless_its_value_moves() {
    let theirs = |revision| held(revision, holder("b", 3, 6));
    for (stands, taken) in [(5, vec![mine(7, 5)]), (6, vec![])] {
        let mut at = At::new();
        let _look = at.gets(Input::Placed(Belongs::Here));
        assert_eq!(at.gets(looked(theirs(5), 2)), []);
        assert_eq!(at.at(600, Input::Silent(Boot(8))), [], "that is another life");
        assert_eq!(at.at(600, Input::Silent(Boot(3))), [Look]);
        assert_eq!(at.at(605, Input::Silent(Boot(8))), [], "and hides this one not");
        assert_eq!(at.at(610, looked(theirs(stands), 2)), taken);
    }
}

#[test]
fn a_graceful_owner_drains_stops_and_only_then_deletes() {
    let mut at = At::owner(1);
    assert_eq!(at.at(10, Input::Placed(Belongs::Elsewhere)), [Drain]);
    assert_eq!(at.at(3_000, Input::Tick), [mine(1, 1)], "it still owns");
    assert_eq!(at.at(3_010, stored(2)), []);
    assert_eq!(at.at(3_020, Input::Drained), [Stop(Why::HandedOver), Delete { expected: 2 }]);
    assert_eq!(at.epoch(), None);
    assert_eq!(at.at(3_030, stored(3)), []);
    assert_eq!(at.0.next(), None);
    assert_eq!(at.at(9_000, Input::Placed(Belongs::Here)), [Look]);
}

#[test]
fn a_bucket_that_was_made_again_blocks_nobody_and_its_owner_gets_it_back() {
    let mut at = At::owner(7);
    assert_eq!(at.at(1_000, Input::Reopened), [Look]);
    assert_eq!(at.at(1_010, looked(free(0), 7)), [mine(8, 0)]);
    assert_eq!(at.epoch(), Some(7), "its horizon is not reached");
    assert_eq!(at.at(1_020, stored(1)), [Own(Epoch(8))]);

    // Without news of it the next heartbeat is refused, and the look finds out.
    let mut at = At::owner(7);
    assert_eq!(at.at(3_000, Input::Tick), [mine(7, 1)]);
    assert_eq!(at.at(3_010, Input::Wrote(Outcome::Refused)), [Look]);
    assert_eq!(at.at(3_020, looked(free(0), 7)), [mine(8, 0)]);

    // Without a bucket there is no ownership for longer than the horizon.
    let mut at = At::owner(7);
    assert_eq!(at.at(1_000, Input::Reopened), [Look]);
    assert_eq!(at.at(1_010, Input::LookFailed), []);
    assert_eq!(at.at(12_000, Input::Tick), [Stop(Why::HeartbeatsFailed), Look]);
}

#[test]
fn a_take_that_arrives_too_late_is_taken_again_or_given_back() {
    let mut at = At::new();
    let _look = at.gets(Input::Placed(Belongs::Here));
    assert_eq!(at.gets(looked(free(0), 0)), [mine(1, 0)]);
    assert_eq!(at.at(12_000, stored(1)), [Look]);
    assert_eq!(at.gets(looked(held(1, holder("a", 1, 1)), 0)), [mine(2, 1)]);
    assert_eq!(at.at(12_010, Input::Placed(Belongs::Elsewhere)), []);
    assert_eq!(at.at(12_020, stored(2)), [Delete { expected: 2 }]);
}

#[test]
fn a_look_that_the_watch_has_overtaken_is_taken_again_and_not_waited_for() {
    let mut at = At::new();
    assert_eq!(at.gets(Input::Placed(Belongs::Here)), [Look]);
    // The owner gave it back while the answer was on its way.
    assert_eq!(at.gets(Input::Watched(free(6))), []);
    assert_eq!(at.gets(looked(held(5, holder("b", 2, 3)), 3)), []);
    assert_eq!(at.0.next(), Some(Uptime(LOOK_PACE.0)), "and not when a value would be stale");
    assert_eq!(at.at(LOOK_PACE.0, Input::Tick), [Look]);
    assert_eq!(at.gets(looked(free(6), 3)), [mine(4, 6)]);
}

#[test]
fn a_fenced_life_is_replaced_however_alive_it_looks() {
    let mut at = At::new();
    assert_eq!(at.gets(Input::Placed(Belongs::Here)), [Look]);
    assert_eq!(at.gets(looked(held(3, holder("b", 2, 4)), 4)), []);
    assert_eq!(at.at(600, Input::Fenced(Boot(2))), [Look]);
    // It beats in between, which would be a sign of life of one that is only suspected.
    assert_eq!(at.gets(Input::Watched(held(4, holder("b", 2, 4)))), []);
    assert_eq!(at.gets(looked(held(4, holder("b", 2, 4)), 4)), [mine(5, 4)]);
    assert_eq!(at.gets(Input::Wrote(Outcome::Refused)), []);
    assert_eq!(at.at(1_200, Input::Tick), [Look]);
    assert_eq!(at.gets(looked(held(5, holder("b", 2, 4)), 4)), [mine(6, 5)]);
    assert_eq!(at.gets(stored(6)), [Own(Epoch(6))]);
}

#[test]
fn a_life_that_hears_that_it_is_fenced_stops_and_takes_nothing_again() {
    let mut at = At::owner(1);
    assert_eq!(at.gets(Input::Fenced(Boot(9))), [], "another one");
    assert_eq!(at.at(3_000, Input::Tick), [mine(1, 1)]);
    assert_eq!(at.at(3_100, Input::Fenced(Boot(1))), [Stop(Why::Fenced)]);
    assert_eq!(at.epoch(), None);
    // Its last beat was under way: nobody waits for the end of that.
    assert_eq!(at.gets(stored(2)), [Delete { expected: 2 }]);
    assert_eq!(at.gets(stored(3)), []);
    assert_eq!(at.at(90_000, Input::Placed(Belongs::Here)), []);
    assert_eq!(at.gets(Input::Watched(free(9))), []);
    assert_eq!((at.gets(Input::Tick), at.0.next()), (vec![], None));
}

#[test]
fn a_life_that_is_fenced_while_it_takes_takes_it_back() {
    let mut at = At::new();
    assert_eq!(at.gets(Input::Placed(Belongs::Here)), [Look]);
    assert_eq!(at.gets(looked(free(0), 0)), [mine(1, 0)]);
    assert_eq!(at.gets(Input::Fenced(Boot(1))), []);
    assert_eq!(at.gets(stored(1)), [Delete { expected: 1 }]);
    assert_eq!(at.epoch(), None);
}
