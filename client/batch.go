package warren

// Batch is what a handler gets.
type Batch struct{}
