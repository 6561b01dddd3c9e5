// Package bench is what a benchmark of RabbitMQ means: the scenarios and their file, the schedule of intended sends, the
// account of each message, the result and its file, the verdict that names the bottleneck, the comparison with earlier
// results, and the names of the broker's series. It is pure: values in, values out. Package load generates the load and
// takes the samples; package report draws the page.
//
// Numbers in results carry their unit in the name: Seconds, Bytes, PerSecond, Cores, Ratio (0 to 1), Total (a counter since
// the start of what counts). A pointer that is nil, and a field that is absent from the file, means that nobody measured it:
// it is never written as zero.
package bench
