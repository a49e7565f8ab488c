const MONTHS = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];

// The three forms of an HTTP date (RFC 9110, section 5.6.7). `Date.parse` would read a date in `-5`, too.
const FORMS = [
  /^[A-Z][a-z]{2}, (?<day>\d{2}) (?<month>[A-Z][a-z]{2}) (?<year>\d{4}) (?<time>\d{2}:\d{2}:\d{2}) GMT$/,
  /^[A-Z][a-z]+day, (?<day>\d{2})-(?<month>[A-Z][a-z]{2})-(?<year>\d{2}) (?<time>\d{2}:\d{2}:\d{2}) GMT$/,
  /^[A-Z][a-z]{2} (?<month>[A-Z][a-z]{2}) (?<day>[ \d]\d) (?<time>\d{2}:\d{2}:\d{2}) (?<year>\d{4})$/,
];

/** Reads an HTTP date: milliseconds since 1970, or `undefined`. `now` tells the century of a year with two digits. */
export function parseHttpDate(text: string, now: number): number | undefined {
  for (const form of FORMS) {
    const found = form.exec(text)?.groups as { day: string; month: string; year: string; time: string } | undefined;
    if (!found) continue;
    const month = MONTHS.indexOf(found.month);
    const [hours, minutes, seconds] = found.time.split(":").map(Number) as [number, number, number];
    if (month < 0 || hours > 23 || minutes > 59 || seconds > 60) return undefined;
    let year = Number(found.year);
    if (found.year.length === 2) {
      // Such a year is never more than 50 years in the future.
      const thisYear = new Date(now).getUTCFullYear();
      year += thisYear - (thisYear % 100);
      if (year > thisYear + 50) year -= 100;
    }
    return Date.UTC(year, month, Number(found.day), hours, minutes, seconds);
  }
  return undefined;
}

/**
 * How long `Retry-After` asks to wait at least (RFC 9110, section 10.2.3): from 0 to `longest` milliseconds. A value that is neither a number of
 * seconds nor an HTTP date asks for nothing.
 */
export function retryAfter(value: string | null, longest: number, now: number): number {
  const text = value?.trim() ?? "";
  const wait = /^\d+$/.test(text) ? Number(text) * 1000 : (parseHttpDate(text, now) ?? now) - now;
  return Math.min(longest, Math.max(0, wait));
}

/** The random part of a wait: from 0 to below min(`cap`, `base` × 2^`retry`). `retry` is 0 before the first retry, `random` from 0 to below 1. */
export function jitter(base: number, cap: number, retry: number, random: number): number {
  // The exponent is bounded because 0 × Infinity is no number. `base` × 2^40 is more than any cap.
  return random * Math.min(cap, base * 2 ** Math.min(retry, 40));
}
