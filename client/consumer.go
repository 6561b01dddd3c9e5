package warren

import "context"

// Consume handles the messages of a queue in batches until ctx ends.
func (r *Router) Consume(ctx context.Context, queue string, h Handler, opts ...ConsumeOption) error {
	_, err := newConsumerConfig(queue, opts)
	return err
}
