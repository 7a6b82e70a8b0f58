// A stream says when it is not live, and pages share the browser's connections.

import { equal, ok } from "/js/check.js";
import { hidden, seen } from "/js/sight.js";
import { LiveSource, ageText } from "/static/js/live_source.js";
import { Places, places } from "/static/js/places.js";

places.locks = undefined; // streams open at once

class Stream {
  static CLOSED = 2;
  static all = [];
  constructor(url) {
    Object.assign(this, { url, actions: {}, readyState: 0 });
    Stream.all.push(this);
  }
  addEventListener(name, action) {
    this.actions[name] = action;
  }
  tell(name, data, lastEventId = "") {
    this.actions[name]({ data: JSON.stringify(data), lastEventId });
  }
  fail(readyState) {
    this.readyState = readyState;
    this.actions.error();
  }
  close() {
    this.isClosed = true;
  }
}

const now = Date.now;

/** A stream whose clock the test moves by `later`. */
function opened() {
  globalThis.EventSource = Stream;
  Stream.all = [];
  let passedMs = 0;
  Date.now = () => now() + passedMs;
  document.body.innerHTML = "<div id=stale><p id=banner hidden></p></div>";
  const [stale, banner] = [document.getElementById("stale"), document.getElementById("banner")];
  const told = [];
  const live = new LiveSource({ address: () => "/events", actions: { news: (data, id) => told.push([data, id]) }, banner, stale });
  live.open();
  Stream.all[0].actions.open();
  const later = async (ms) => {
    passedMs += ms;
    await until(() => true, 600); // the next look at the clock
  };
  return { live, stale, banner, told, later, stream: () => Stream.all.at(-1) };
}

async function until(condition, atLeastMs = 0) {
  await new Promise((settle) => setTimeout(settle, atLeastMs));
  for (let tries = 0; tries < 100 && !condition(); tries += 1) await new Promise((settle) => setTimeout(settle, 20));
  ok(condition(), String(condition));
}

function over({ live }) {
  live.end();
  Date.now = now;
}

export function testAgesAreInWords() {
  equal([0, 14_400, 119_000, 300_000, 3_600_000, 7_200_000].map(ageText), ["0 s", "14 s", "119 s", "5 min", "60 min", "2 h"]);
}

export function testEventsAreToldWithTheirIds() {
  const it = opened();
  it.stream().tell("news", { a: 1 }, "7");
  equal(it.told, [[{ a: 1 }, "7"]]);
  ok(it.banner.hidden);
  over(it);
}

export async function testACutIsSaidWithTheAgeAndGoneWithTheNextEvent() {
  const it = opened();
  it.stream().tell("ping", { trouble: "" });
  it.stream().fail(0);
  await it.later(200);
  ok(it.banner.hidden, "a short cut is not worth a word");
  await it.later(30_000);
  ok(it.banner.textContent.startsWith("Not live: what you see is 3"), it.banner.textContent);
  ok(it.banner.querySelector("button") && it.stale.classList.contains("stale"));
  it.stream().tell("news", {});
  ok(it.banner.hidden && !it.stale.classList.contains("stale"));
  over(it);
}

export async function testASilentStreamIsOpenedAgain() {
  const it = opened();
  it.stream().tell("ping", { trouble: "" });
  await it.later(3_600_000);
  ok(it.banner.textContent.startsWith("Not live: what you see is 60 min old"), it.banner.textContent);
  await until(() => Stream.all.length === 2);
  ok(Stream.all[0].isClosed);
  it.stream().tell("ping", { trouble: "" });
  ok(it.banner.hidden);
  over(it);
}

export function testTroubleOfTheServerIsSaidWhileEventsCome() {
  const it = opened();
  it.stream().tell("ping", { trouble: "The message broker does not answer" });
  it.stream().tell("news", {});
  ok(it.banner.textContent.includes("broker does not answer"));
  it.stream().tell("ping", { trouble: "" });
  ok(it.banner.hidden);
  over(it);
}

export async function testARefusalIsSaidInTheServersWordsAndTriedAgain() {
  const it = opened();
  const fetchBefore = globalThis.fetch;
  globalThis.fetch = async () => new Response('{"message": "4 live streams are open, the maximum"}', { status: 503 });
  it.stream().fail(2);
  await until(() => it.banner.textContent.includes("4 live streams are open"));
  it.banner.querySelector("button").click();
  await until(() => Stream.all.length === 2);
  globalThis.fetch = fetchBefore;
  over(it);
}

export function testAHiddenPageHasNoStream() {
  const it = opened();
  hidden();
  ok(it.stream().isClosed);
  seen();
  equal(Stream.all.length, 2);
  over(it);
}

export function testWhatWasLongHiddenIsNotShownAsLive() {
  const it = opened();
  it.stream().tell("ping", { trouble: "" });
  hidden();
  const hour = Date.now() + 3_600_000;
  Date.now = () => hour;
  seen();
  ok(it.banner.textContent.includes("60 min old"), "said before anything comes");
  it.stream().tell("ping", { trouble: "" });
  ok(it.banner.hidden);
  over(it);
}

export async function testPlacesAreSharedAndTheRestTakesTurns() {
  const shared = new Places(navigator.locks, { count: 2, turnMs: 10 });
  const taken = [shared.take(), shared.take(), shared.take(), shared.take()];
  for (const place of taken.slice(0, 3)) await place.granted;
  equal(taken.map((place) => place.isTurn), [false, false, true, true]);
  let isGranted = false;
  taken[3].granted.then(() => { isGranted = true; });
  await until(() => true, 50);
  ok(!isGranted, "one turn at a time");
  taken[2].release();
  await taken[3].granted;
  taken[0].release();
  await until(() => true, 20);
  const next = shared.take();
  await next.granted;
  ok(!next.isTurn, "a place that was left is free");
  for (const place of [...taken, next]) place.release();
}

export async function testAPlaceThatIsReleasedBeforeItIsGrantedIsFree() {
  const shared = new Places(navigator.locks, { count: 1, turnMs: 10 });
  const [first, second] = [shared.take(), shared.take()];
  first.release();
  await first.granted;
  await second.granted;
  second.release();
  await until(() => true, 20);
  const third = shared.take();
  await third.granted;
  ok(!third.isTurn);
  third.release();
}
