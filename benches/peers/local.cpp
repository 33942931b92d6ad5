// What one process does alone with the C++ library: the peer of `kumiki bench data` for memory and structures of a rank's own.
//
// Reads lines `METRIC REPS` and answers each with one line of JSON, as rma.c does: nanoseconds of one operation.

#include <array>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <unordered_map>
#include <vector>

namespace {

using Clock = std::chrono::steady_clock;
using Value = std::array<unsigned char, 64>;

const uint64_t KEYS = 100000;
const double SAMPLE_SECONDS = 5e-3;

// The compiler may not know what happens to `pointer`.
void use(void *pointer) { asm volatile("" : : "r"(pointer) : "memory"); }

// The i-th key, as the other contenders have it.
uint64_t key(uint64_t i) { return (i % KEYS) * 0x9e3779b97f4a7c15ull; }

std::unordered_map<uint64_t, Value> table;

void mallocs(uint64_t count) {
    for (uint64_t i = 0; i < count; i++) {
        void *block = malloc(64);
        use(block);
        free(block);
    }
}

void finds(uint64_t count) {
    Value value;
    for (uint64_t i = 0; i < count; i++) {
        auto found = table.find(key(i));
        if (found == table.end()) abort();
        value = found->second;
        use(&value);
    }
}

void inserts(uint64_t count) {
    Value value = {};
    std::unordered_map<uint64_t, Value> fresh;
    fresh.reserve(KEYS);
    for (uint64_t i = 0; i < count; i++) {
        if (i % KEYS == 0) fresh.clear();
        fresh.emplace(key(i), value);
    }
    use(&fresh);
}

void pushes(uint64_t count) {
    std::vector<uint64_t> numbers;
    for (uint64_t i = 0; i < count; i++) {
        if (i % 65536 == 0) numbers.clear();
        numbers.push_back(i);
        use(numbers.data());
    }
}

double seconds_of(void (*work)(uint64_t), uint64_t count) {
    auto began = Clock::now();
    work(count);
    return std::chrono::duration<double>(Clock::now() - began).count();
}

double sample(void (*work)(uint64_t)) {
    uint64_t count = 1;
    for (;;) {
        double seconds = seconds_of(work, count);
        if (seconds >= SAMPLE_SECONDS / 2) return seconds / count * 1e9;
        double wanted = seconds > 0 ? count * SAMPLE_SECONDS / seconds : count * 8.0;
        count = wanted > count * 8.0 ? count * 8 : (uint64_t)wanted + 1;
    }
}

} // namespace

int main() {
    for (uint64_t i = 0; i < KEYS; i++) table[key(i)] = Value();
    printf("ready std\n");
    fflush(stdout);
    char line[128], metric[128];
    int reps;
    while (fgets(line, sizeof line, stdin) && strncmp(line, "quit", 4) != 0) {
        if (sscanf(line, "%127s %d", metric, &reps) != 2 || reps < 1) continue;
        void (*work)(uint64_t) = nullptr;
        if (!strcmp(metric, "std.malloc")) work = mallocs;
        if (!strcmp(metric, "std.find")) work = finds;
        if (!strcmp(metric, "std.insert")) work = inserts;
        if (!strcmp(metric, "std.push")) work = pushes;
        if (!work) {
            printf("{\"metric\":\"%s\",\"error\":\"not known here\"}\n", metric);
        } else {
            sample(work);
            printf("{\"metric\":\"%s\",\"unit\":\"ns\",\"samples\":[", metric);
            for (int i = 0; i < reps; i++) printf("%s%.3f", i ? "," : "", sample(work));
            printf("]}\n");
        }
        fflush(stdout);
    }
    return 0;
}
