package broker

import "fmt"

// suggestion names the one of the known keys that differs least from a misspelt one, when it is close enough to be meant.
func suggestion(misspelt string, known []string) string {
	best, distance := "", 3
	for _, key := range known {
		if d := editDistance(misspelt, key); d < distance {
			best, distance = key, d
		}
	}
	if best == "" {
		return ""
	}
	return fmt.Sprintf(" (did you mean %q?)", best)
}

func editDistance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := 1; i <= len(a); i++ {
		diagonal := row[0]
		row[0] = i
		for j := 1; j <= len(b); j++ {
			cost := diagonal
			if a[i-1] != b[j-1] {
				cost = 1 + min(diagonal, row[j], row[j-1])
			}
			diagonal, row[j] = row[j], cost
		}
	}
	return row[len(b)]
}
