// Package job is what the operator and the pods of a run agree on: the Kubernetes objects that a run consists of, the plan
// that its pods read, and what they hand back. It is pure.
package job
