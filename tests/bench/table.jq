# SPDX-License-Identifier: Apache-2.0
# bench.json as a table for people.
def pad($width): tostring | . + " " * ([$width - length, 0] | max);
def lpad($width): tostring | " " * ([$width - length, 0] | max) + .;
def fixed($digits): (. * pow(10; $digits) | round | tostring) as $n
    | if $digits == 0 then $n
      else ($n | " " * 0 + ("0" * ([$digits + 1 - length, 0] | max)) + .) as $p
          | $p[:-$digits] + "." + $p[-$digits:] end;
def seconds: if . == null then "-" else (. / 1e6 | fixed(3)) + " s" end;
def megabytes: if . == null then "-" else (. / 1e6 | fixed(2)) + " MB" end;
def ratio($floor): if . == null or $floor == null or $floor == 0 then "" else "×" + (. / $floor | fixed(2)) end;
def row($name; $cells; $aim): ($name | pad(34)) + ([$cells[] | lpad(11) + "  "] | add) + (if $aim then "  aim: " + $aim else "" end);
. as $b
| ["slipway-init", "floor", "stock-like"] as $names
| def of($metric): [$names[] | $b.subjects[.][$metric].median];
  def spread($metric): [$names[] | $b.subjects[.][$metric].all
    | if (. // [] | length) < 2 then "" else "\(min / 1e6 | fixed(2))–\(max / 1e6 | fixed(2)) s" end];
  def times($name; $metric; $aim):
    of($metric) as $v
    | row($name; [$v[] | seconds]; null),
      (if $b.repeat > 1 then row("  smallest and largest"; spread($metric); null) else empty end),
      row("  of the floor"; [$v[] | ratio($v[1])]; $aim);
  def own($metric; $aim):
    of($metric) as $v
    | if ($v | any(. == null)) then empty else
        row("  own part: beyond the floor"; [$v[] | . - $v[1] | seconds]; null),
        row("  the script's own part by ours"; ["", "", ($v[2] - $v[1] | ratio($v[0] - $v[1]))]; $aim) end;
  def memory($name; $metric; $aim): row($name; [of($metric)[] | if . then . * 1024 else null end | megabytes]; $aim);
  "Kernel \(.krel), one processor (\(.machine)); medians of \(.repeat) boot(s). MB is 1,000,000 bytes.",
  "",
  row(""; $names; null),
  times("start → ready, OFED there before"; "start_to_ready_us"; "at most ×\(.aims.ready_of_floor)"),
  own("start_to_ready_us"; "at least ×\(.aims.stock_own_of_ours)"),
  times("OFED's flag → ready, 3 s after start"; "flag_to_ready_us"; null),
  times("OFED's flag → nvidia-peermem loaded"; "flag_to_peermem_us"; "at most \(.aims.flag_to_peermem_us | seconds)"),
  row("killed, started again → ready"; [of("again_us")[] | seconds]; "under \(.aims.again_us | seconds)"),
  times("SIGTERM → unloaded and gone"; "stop_us"; null),
  memory("peak memory of the init (VmHWM)"; "peak_kib"; "under \(.aims.peak_bytes | megabytes)"),
  memory("  resident when ready"; "ready_resident_kib"; null),
  memory("  with a daemon supervised"; "daemons_resident_kib"; "under \(.aims.peak_bytes | megabytes)"),
  memory("  of that private (RssAnon)"; "ready_anonymous_kib"; null),
  memory("peak of its largest process"; "family_peak_kib"; null),
  row("file size of the init"; [.init_bytes | megabytes]; null),
  "",
  "slipway-init's steps of more than 1 ms (first boot, OFED there before):",
  (.steps[] | select(.launch == "ofed-first" and .duration_us > 1000 and .event != "loaded" and .event != "unloaded")
    | "  " + ((if .event == "undone" then "undo " else "" end) + .step | pad(32)) + (.duration_us | seconds | lpad(11))),
  "",
  (.images[] | .role as $role
    | row("\($role) image"; ["unpacked", "packed"]; null),
      (.layers[] | row("  " + .title[:31]; [(.unpacked_bytes, .packed_bytes) | megabytes]; null)),
      row("  total"; [(.unpacked_bytes, .packed_bytes) | megabytes];
        if $role == "nic" then "under \($b.aims.nic_image_bytes | megabytes)" else null end))
