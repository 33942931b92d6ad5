/* The all-to-all of `kumiki bench sim` in SimGrid's flow model: a torus, and in step s every host sends to the one s further on.
 *
 *   usage: simgrid sync|free 8x8x8 BYTES STEPS BYTES_PER_SECOND SECONDS_PER_HOP
 *
 * sync: the next step begins when all have arrived; one actor starts all transfers of a step, the cheapest way to say it.
 * free: an actor a host, each goes on when its own transfer has arrived.
 * STEPS of the N-1 steps are run, evenly spread. Prints one line of JSON: simulated time, CPU time, the most memory used. */
#include <simgrid/s4u.hpp>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <string>
#include <sys/resource.h>
#include <unistd.h>
#include <vector>

namespace sg4 = simgrid::s4u;

static double simulated = 0;

/* The hosts by number, not by name: "node-10" stands before "node-2" in the list. */
static std::vector<sg4::Host*> hosts_by_number()
{
    std::vector<sg4::Host*> hosts = sg4::Engine::get_instance()->get_all_hosts(), by_number(hosts.size());
    for (sg4::Host* host : hosts) by_number[std::stoul(host->get_name().substr(5))] = host;
    return by_number;
}

static size_t shift_of(long step, long steps, size_t n) { return 1 + (size_t)step * (n - 1) / (size_t)steps; }

static void in_step(long bytes, long steps)
{
    std::vector<sg4::Host*> hosts = hosts_by_number();
    const size_t n = hosts.size();
    for (long step = 0; step < steps; step++) {
        std::vector<sg4::CommPtr> flying;
        flying.reserve(n);
        for (size_t rank = 0; rank < n; rank++)
            flying.push_back(sg4::Comm::sendto_async(hosts[rank], hosts[(rank + shift_of(step, steps, n)) % n], (double)bytes));
        for (auto& comm : flying) comm->wait();
    }
    simulated = sg4::Engine::get_clock();
}

static void one_rank(const std::vector<sg4::Host*>* hosts, size_t rank, long bytes, long steps)
{
    const size_t n = hosts->size();
    for (long step = 0; step < steps; step++)
        sg4::Comm::sendto_async((*hosts)[rank], (*hosts)[(rank + shift_of(step, steps, n)) % n], (double)bytes)->wait();
    simulated = std::max(simulated, sg4::Engine::get_clock());
}

/* The platform as SimGrid's own file format, which all its versions read. */
static std::string write_platform(std::string sizes, const char* bandwidth, const char* latency)
{
    /* Where it runs, not in a folder of everybody. */
    char name[] = "./simgrid-XXXXXX.xml";
    int file = mkstemps(name, 4);
    if (file < 0) {
        perror("mkstemps");
        exit(1);
    }
    close(file);
    long nodes = 1;
    std::string list;
    for (size_t at = 0; at < sizes.size();) {
        size_t end = sizes.find('x', at);
        if (end == std::string::npos) end = sizes.size();
        std::string one = sizes.substr(at, end - at);
        nodes *= std::stol(one);
        list += (list.empty() ? "" : ",") + one;
        at = end + 1;
    }
    std::ofstream out(name);
    out << "<?xml version='1.0'?><!DOCTYPE platform SYSTEM \"https://simgrid.org/simgrid.dtd\"><platform version=\"4.1\">"
        << "<cluster id=\"torus\" prefix=\"node-\" suffix=\"\" radical=\"0-" << nodes - 1 << "\" speed=\"1Gf\" bw=\"" << bandwidth
        << "Bps\" lat=\"" << latency << "s\" topology=\"TORUS\" topo_parameters=\"" << list
        << "\" sharing_policy=\"SPLITDUPLEX\"/></platform>\n";
    return name;
}

int main(int argc, char** argv)
{
    sg4::Engine engine(&argc, argv);
    if (argc != 7) {
        fprintf(stderr, "usage: %s sync|free 8x8x8 BYTES STEPS BYTES_PER_SECOND SECONDS_PER_HOP\n", argv[0]);
        return 2;
    }
    /* The bandwidth and latency that are asked for, without the corrections for TCP. */
    for (const char* setting : {"network/model:CM02", "network/crosstraffic:0", "network/TCP-gamma:0"})
        sg4::Engine::set_config(setting);
    std::string path = write_platform(argv[2], argv[5], argv[6]);
    engine.load_platform(path);
    unlink(path.c_str());
    std::vector<sg4::Host*> hosts = hosts_by_number();
    long bytes = std::stol(argv[3]), steps = std::stol(argv[4]);
    if (std::string(argv[1]) == "sync") sg4::Actor::create("all", hosts[0], in_step, bytes, steps);
    else
        for (size_t rank = 0; rank < hosts.size(); rank++)
            sg4::Actor::create("rank", hosts[rank], one_rank, &hosts, rank, bytes, steps);
    engine.run();
    struct rusage used;
    getrusage(RUSAGE_SELF, &used);
    double cpu = (double)(used.ru_utime.tv_sec + used.ru_stime.tv_sec) + 1e-6 * (double)(used.ru_utime.tv_usec + used.ru_stime.tv_usec);
    printf("{\"time_us\":%.3f,\"cpu_seconds\":%.3f,\"peak_rss_bytes\":%ld}\n", 1e6 * simulated, cpu, 1024 * used.ru_maxrss);
    return 0;
}
