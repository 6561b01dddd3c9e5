package main

import (
	"fmt"
	"slices"
	"time"
)

// parts of the benchmark, as --only names them.
var parts = []struct{ name, what string }{
	{"a", "consuming a backlog: batches against pull-work-ack, single acks, and a loop written by hand"},
	{"b", "publishing: AutoBatch against waiting for the confirm of each message"},
	{"c", "publishing: AutoBatch, also packed, against pipelined confirms with the same window"},
	{"d", "publishing compressed, on a slow network and without one"},
	{"e", "CPU and allocations of the client for each message, of what a and c run"},
	{"f", "how many workers are good where work contends, and whether back-pressure finds out"},
	{"null", "with a broker in memory that only answers: what the client alone can do"},
}

// plan is what is run against one broker.
func plan(cfg config, version string) []group {
	var out []group
	for _, kind := range cfg.types {
		prefix := version + "/" + kind + "/"
		out = append(out, backlog(cfg, kind, prefix))
		for _, size := range cfg.sizes {
			out = append(out, publishing(cfg, kind, size, prefix))
		}
		out = append(out, compression(cfg, kind, prefix))
	}
	return append(out, contention(cfg, cfg.types[0], version+"/"+cfg.types[0]+"/"), ceiling(cfg))
}

// byHand says what a loop written by hand reached against a variant: what batches can reach is bounded by it, since the rest
// is the broker's.
func (r *results) byHand(than string) string {
	all := ratios(r.rates(rawMany), r.rates(than))
	if len(all) == 0 {
		return ""
	}
	return fmt.Sprintf("the loop by hand: %.2f×", median(all))
}

// goals of consumers by type of queue: against prefetch 1, and against single acks with the same prefetch.
var goals = map[string]struct{ one, each float64 }{"classic": {9, 1.45}, "quorum": {40, 3}}

func backlog(cfg config, kind, prefix string) group {
	consumer := func(variant, needs string, fill int) trial {
		return trial{key: variant, parts: needs, kind: kind, fill: fill, job: job{
			Variant: variant, Size: cfg.sizes[0], Prefetch: cfg.prefetch(), Batch: cfg.batch, Workers: cfg.workers,
		}}
	}
	return group{
		title: prefix + "backlog",
		trials: []trial{
			consumer(rawGet, "a", cfg.slowBacklog), consumer(rawOne, "a", cfg.slowBacklog), consumer(rawEach, "a e", cfg.backlog),
			consumer(rawMany, "a", cfg.backlog), consumer(batches, "a e", cfg.backlog),
		},
		figures: func(r *results) (out []figure) {
			setup := fmt.Sprintf("%d B, prefetch %d, batches of %d", cfg.sizes[0], cfg.prefetch(), cfg.batch)
			few := fmt.Sprintf("backlog of %d", cfg.slowBacklog)
			if cfg.wants("a") {
				out = append(out,
					r.rate("a/"+prefix+rawGet, rawGet, few), r.rate("a/"+prefix+rawOne, rawOne, few),
					r.rate("a/"+prefix+rawEach, rawEach, setup), r.rate("a/"+prefix+rawMany, rawMany, setup),
					r.rate("a/"+prefix+batches, batches, fmt.Sprintf("%s, %d workers", setup, cfg.workers)),
					r.faster("a/"+prefix+batches+" to "+rawOne, batches, rawOne, goals[kind].one, r.byHand(rawOne)),
					r.faster("a/"+prefix+batches+" to "+rawEach, batches, rawEach, goals[kind].each, r.byHand(rawEach)),
					r.faster("a/"+prefix+batches+" to "+rawMany, batches, rawMany, 0.95),
				)
			}
			return append(out, costs(cfg, r, prefix, rawEach, batches)...)
		},
	}
}

const autoPacked = "auto-packed"

func publishing(cfg config, kind string, size int, prefix string) group {
	prefix = fmt.Sprintf("%s%dB/", prefix, size)
	publisher := func(key, variant, needs string) trial {
		return trial{key: key, parts: needs, kind: kind, job: job{
			Variant: variant, Size: size, Body: bodyRandom, For: cfg.publish, Window: cfg.window, Callers: cfg.callers,
			Pack: key == autoPacked,
		}}
	}
	e := ""
	if size == cfg.sizes[0] {
		e = " e"
	}
	return group{
		title: prefix + "publish",
		trials: []trial{
			publisher(rawSingle, rawSingle, "b"), publisher(autoCallers, autoCallers, "b"), publisher(autoAsync, autoAsync, "b c"+e),
			publisher(rawPipelined, rawPipelined, "c"+e), publisher(autoPacked, autoAsync, "c"+e),
		},
		figures: func(r *results) (out []figure) {
			callers := fmt.Sprintf("%d goroutines that wait", cfg.callers)
			window := fmt.Sprintf("window %d", cfg.window)
			if cfg.wants("b") {
				out = append(out,
					r.rate("b/"+prefix+rawSingle, rawSingle), r.rate("b/"+prefix+autoAsync, autoAsync, window),
					r.rate("b/"+prefix+autoCallers, autoCallers, callers, window),
					r.faster("b/"+prefix+autoAsync+" to "+rawSingle, autoAsync, rawSingle, 12),
					of("b/"+prefix+autoCallers+" to "+rawSingle, "×", ratios(r.rates(autoCallers), r.rates(rawSingle)),
						r.note(autoCallers, rawSingle), callers),
				)
			}
			if cfg.wants("c") {
				sent := fmt.Sprintf("%.0f messages in each AMQP message", median(r.each(autoPacked, func(o outcome) float64 {
					return float64(o.Messages) / float64(max(o.Sent, 1))
				})))
				out = append(out,
					r.rate("c/"+prefix+rawPipelined, rawPipelined, window), r.rate("c/"+prefix+autoAsync, autoAsync, window),
					r.rate("c/"+prefix+autoPacked, autoPacked, window, sent),
					of("c/"+prefix+autoPacked+", AMQP", "messages/s", r.each(autoPacked, func(o outcome) float64 {
						return float64(o.Sent) / o.Seconds
					})),
					r.faster("c/"+prefix+autoAsync+" to "+rawPipelined, autoAsync, rawPipelined, 1),
					r.faster("c/"+prefix+autoPacked+" to "+rawPipelined, autoPacked, rawPipelined, 3.4, "messages of the application"),
				)
			}
			if e != "" {
				out = append(out, costs(cfg, r, prefix, rawPipelined, autoAsync, autoPacked)...)
			}
			return out
		},
	}
}

// costs of the client's process.
func costs(cfg config, r *results, prefix string, keys ...string) (out []figure) {
	if !cfg.wants("e") {
		return nil
	}
	for _, key := range keys {
		out = append(out,
			of("e/"+prefix+key+", CPU", "µs/message", r.each(key, func(o outcome) float64 { return o.perMessage(o.CPU * 1e6) }), r.note(key)),
			of("e/"+prefix+key+", allocations", "/message", r.each(key, func(o outcome) float64 { return o.perMessage(float64(o.Allocs)) })),
			of("e/"+prefix+key+", allocated", "B/message", r.each(key, func(o outcome) float64 { return o.perMessage(float64(o.Bytes)) })),
		)
	}
	return out
}

// jsonSize is the size of the documents that are compressed.
const jsonSize = 10 << 10

func compression(cfg config, kind, prefix string) group {
	publisher := func(key, codec, way string) trial {
		return trial{key: key, parts: "d", kind: kind, way: way, job: job{
			Variant: autoAsync, Size: jsonSize, Body: bodyJSON, For: cfg.publish, Window: cfg.window, Codec: codec,
		}}
	}
	return group{
		title: prefix + "compress",
		trials: []trial{
			publisher("slow-plain", "", slow), publisher("slow-gzip", "gzip", slow), publisher("slow-zstd", "zstd", slow),
			publisher("plain", "", direct), publisher("gzip", "gzip", direct), publisher("zstd", "zstd", direct),
		},
		figures: func(r *results) (out []figure) {
			if !cfg.wants("d") {
				return nil
			}
			network := fmt.Sprintf("network of %.0f MB/s", cfg.network/1e6)
			for _, key := range []string{"plain", "gzip", "zstd"} {
				ratio := fmt.Sprintf("10 KiB of JSON, %.1f times smaller", median(r.each(key, func(o outcome) float64 { return o.Ratio })))
				out = append(out, r.rate("d/"+prefix+"slow-"+key, "slow-"+key, network, ratio), r.rate("d/"+prefix+key, key, ratio))
			}
			for _, codec := range []string{"gzip", "zstd"} {
				out = append(out, r.faster("d/"+prefix+"slow-"+codec+" to slow-plain", "slow-"+codec, "slow-plain", 2, network),
					of("d/"+prefix+codec+" to plain", "×", ratios(r.rates(codec), r.rates("plain")), "no limit of the network"))
			}
			return out
		},
	}
}

const adaptive = "adaptive"

func contention(cfg config, kind, prefix string) group {
	consumer := func(key string, workers int, settle, target time.Duration) trial {
		// The backlog must last for all of it, at the rate that the model cannot exceed.
		statements := float64(rowLocks.best()) / rowLocks.takes(rowLocks.best(), 0).Seconds()
		fill := int(statements * float64(contendBatch) * (settle + cfg.contend).Seconds())
		return trial{key: key, parts: "f", kind: kind, fill: fill + (workers+1)*contendBatch, job: job{
			Variant: contended, Size: cfg.sizes[0], Batch: contendBatch, Workers: workers, Target: target,
			For: cfg.contend, Settle: settle, Service: rowLocks,
		}}
	}
	g := group{title: prefix + "contention"}
	counts := []int{1, 4, 10, 32, 128}
	var fixed []string
	for _, n := range counts {
		key := fmt.Sprintf("workers-%d", n)
		fixed = append(fixed, key)
		g.trials = append(g.trials, consumer(key, n, 2*time.Second, 0))
	}
	g.trials = append(g.trials, consumer(adaptive, counts[len(counts)-1], cfg.settle, contendTarget))
	g.figures = func(r *results) (out []figure) {
		if !cfg.wants("f") {
			return nil
		}
		return contentionFigures(cfg, r, prefix, fixed)
	}
	return g
}

const (
	// contendBatch is how many messages one statement writes.
	contendBatch = 5
	// contendTarget is what the owner of what is downstream allows: three times what a statement takes alone.
	contendTarget = 30 * time.Millisecond
)

func contentionFigures(cfg config, r *results, prefix string, fixed []string) (out []figure) {
	p95 := func(o outcome) float64 { return o.P95 * 1e3 }
	for _, key := range append(slices.Clone(fixed), adaptive) {
		note := ""
		if key == adaptive {
			limits := r.each(key, func(o outcome) float64 { return float64(o.Limit) })
			note = fmt.Sprintf("at most 128, target %s, after %s; %.0f at the end (%s)", contendTarget, cfg.settle, median(limits), rowLocks)
		}
		out = append(out, r.rate("f/"+prefix+key, key, note), of("f/"+prefix+key+", p95", "ms", r.each(key, p95)))
	}
	best := make([]float64, 0, cfg.runs)
	for i := range cfg.runs {
		most := 0.0
		for _, key := range fixed {
			if i < len(r.rounds[key]) {
				most = max(most, r.rounds[key][i].rate())
			}
		}
		best = append(best, most)
	}
	return append(out,
		r.faster("f/"+prefix+"workers-10 to workers-128", "workers-10", "workers-128", 1),
		of("f/"+prefix+"p95 of workers-128 to workers-10", "×", ratios(r.each("workers-128", p95), r.each("workers-10", p95)),
			r.note("workers-128", "workers-10")).atLeast(1),
		of("f/"+prefix+adaptive+" to the best", "×", ratios(r.rates(adaptive), best), r.note(adaptive)).atLeast(0.9),
	)
}

func ceiling(cfg config) group {
	g := group{title: "null broker"}
	add := func(key string, fill int, j job) {
		j.Size = cfg.sizes[0]
		g.trials = append(g.trials, trial{key: key, parts: "null", way: null, kind: "classic", fill: fill, job: j})
	}
	for _, key := range []string{rawSingle, rawPipelined, autoAsync, autoCallers, autoPacked} {
		j := job{Variant: key, Body: bodyRandom, For: cfg.publish, Window: cfg.window, Callers: cfg.callers}
		if key == autoPacked {
			j.Variant, j.Pack = autoAsync, true
		}
		add(key, 0, j)
	}
	for _, key := range []string{rawEach, rawMany, batches} {
		add(key, cfg.backlog, job{Variant: key, Prefetch: cfg.prefetch(), Batch: cfg.batch, Workers: cfg.workers})
	}
	g.figures = func(r *results) (out []figure) {
		if !cfg.wants("null") {
			return nil
		}
		for _, t := range g.trials {
			out = append(out, r.rate("null/"+t.key, t.key, "the broker is clienttest's, in a process of its own"),
				of("null/"+t.key+", CPU", "µs/message", r.each(t.key, func(o outcome) float64 { return o.perMessage(o.CPU * 1e6) })))
		}
		return append(out, of("null/"+autoAsync+" to "+rawPipelined, "×", ratios(r.rates(autoAsync), r.rates(rawPipelined))),
			of("null/"+batches+" to "+rawMany, "×", ratios(r.rates(batches), r.rates(rawMany))))
	}
	return g
}
