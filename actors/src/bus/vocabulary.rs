//! What can be said to the owners of each kind of stream, and how they refuse: the frozen numbers of each word.

use crate::carried;
use events::{about, artifact, budget, credential, gate, grant, key, run, session, settings};

carried!(session::Command {
    Submit { run, spec, on_busy, seen } = 100 / 1;
    Fork { parent, at, messages, project, by } = 101 / 1;
    RunEnded { run, fence, outcome, messages, generated_by } = 102 / 1;
    Again = 103 / 1;
    SetScope { project, by } = 104 / 1;
});

carried!(session::Refusal {
    Busy = 150 / 1;
    InboxFull = 151 / 1;
    HistoryMoved { have, seen } = 152 / 1;
    Full = 153 / 1;
    NotHolder(run) = 154 / 1;
    Exists = 155 / 1;
    IsClosed = 156 / 1;
    NoScope = 157 / 1;
});

carried!(run::Command {
    Open { spec, session, grant } = 200 / 1;
    Model { call, outcome } = 201 / 1;
    Tool { call, attempt, outcome } = 202 / 1;
    ClientAnswer { results } = 203 / 1;
    ClientGone = 204 / 1;
    Stop { seen } = 205 / 2;
    Due = 206 / 1;
    Slice { ask, outcome } = 207 / 1;
    Returned { scope } = 208 / 1;
    Withhold { seen } = 209 / 2;
    Invoke(asked) = 210 / 1;
    Abandon { call, request, by } = 211 / 1;
    Resume { by } = 212 / 1;
    Approval { approval, answer } = 213 / 1;
});

carried!(run::Refusal {
    NoSuchRun = 250 / 1;
    NotStarted = 251 / 1;
    Ended = 252 / 1;
    OtherInput = 253 / 1;
    NoSuchCall(call) = 254 / 1;
    NoSuchTool(call) = 255 / 1;
    NothingHeld = 256 / 1;
    ResultMissing(call) = 257 / 1;
    ResultStray(call) = 258 / 1;
    NoSuchSlice(ask) = 259 / 1;
    NoSuchApproval(approval) = 260 / 1;
    AnsweredBefore(how) = 261 / 1;
    NotWaiting = 262 / 1;
    OtherSubject = 263 / 1;
    NoAnswer = 264 / 1;
    Unresolved(call) = 265 / 1;
    Halted(halt) = 266 / 1;
    NotHalted = 267 / 1;
    UnderWay = 268 / 1;
    ToolBudget { limit, which } = 269 / 1;
    OtherInvocation = 270 / 1;
    NotMediated(name) = 271 / 1;
    ConsentNeeded(name) = 272 / 1;
    NotARequestId = 273 / 1;
    RequestIdUsed(call) = 274 / 1;
    Leased(until) = 275 / 1;
    Settled(word) = 276 / 1;
});

carried!(key::Command {
    Issue(issued) = 300 / 1;
    Revoke = 301 / 1;
});

carried!(key::Refusal {
    NoSuchKey = 350 / 1;
    Exists = 351 / 1;
});

carried!(settings::Command {
    RaiseReader(to) = 600 / 1;
    Select { provider, model, by } = 601 / 1;
    Unselect { by } = 602 / 1;
    ReplaceToolPolicy { policy, by } = 603 / 1;
});

carried!(settings::Refusal {
    NoWayBack { have } = 650 / 1;
    Mismatch { provider, model } = 651 / 1;
    BadName = 652 / 1;
    OutOfRange(range) = 653 / 1;
    TooManyRevisions = 654 / 1;
});

carried!(credential::Command {
    Add(added) = 500 / 1;
    Rotate(rotated) = 501 / 1;
    Remove(removed) = 502 / 1;
    MarkDead(named) = 503 / 1;
    Revive(named) = 504 / 1;
    Probe(probing) = 505 / 1;
    Saw(saw) = 506 / 1;
    Refresh(stale) = 507 / 1;
    Told(told) = 508 / 1;
});

carried!(credential::Refusal {
    NoSuchProfile = 550 / 1;
    Exists = 551 / 1;
    Full = 552 / 1;
    BadName = 553 / 1;
    NotNow = 554 / 1;
});

carried!(budget::Command {
    Set(terms) = 700 / 1;
    Remove = 701 / 1;
    Grant(wanted) = 702 / 1;
    Return(returned) = 703 / 1;
    Due = 704 / 1;
    List(scope) = 705 / 1;
    Unlist(scope) = 706 / 1;
});

carried!(budget::Refusal {
    Short(short) = 750 / 1;
    Crowded = 751 / 1;
    RunEnded = 752 / 1;
    BadTerms = 753 / 1;
    Full = 754 / 1;
});

carried!(grant::Command {
    Grant(wanted) = 800 / 1;
    Revoke(revoked) = 801 / 1;
});

carried!(grant::Refusal {
    Exists = 850 / 1;
    NoSuchGrant = 851 / 1;
    Past = 852 / 1;
    Full = 853 / 1;
    BadTool = 854 / 1;
    BadPattern(why) = 855 / 1;
});

carried!(gate::Command {
    Evaluate { name, said, verdict, evidence, by } = 900 / 1;
    Waive { name, said, run, reason, by } = 901 / 1;
});

carried!(gate::Refusal {
    BadName = 950 / 1;
    NoSuchGate(name) = 951 / 1;
    TakesNone(name) = 952 / 1;
    BadEvidence = 953 / 1;
    BadReason = 954 / 1;
    Hard(name) = 955 / 1;
    ReadOnly(name) = 956 / 1;
    IsOpen(name) = 957 / 1;
    Full = 958 / 1;
});

carried!(artifact::Command {
    Write(asked) = 1000 / 1;
});

carried!(artifact::Refusal {
    Moved { name, have, over } = 1050 / 1;
    TooLong { bytes } = 1051 / 1;
    ManyVersions { name } = 1052 / 1;
    Full = 1053 / 1;
});

carried!(about::Command {
    Describe { name, description, by } = 1100 / 1;
});

carried!(about::Refusal {
    TooLong = 1150 / 1;
});
