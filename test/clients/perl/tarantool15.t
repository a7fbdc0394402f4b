# A client of the days of Tarantool 1.5, MR::Tarantool::Box, against a running
# server at ADDR: the legacy queue over the old binary protocol. Arguments are
# byte strings; the formats say how the fields of an answer are read.
use strict;
use warnings;

use POSIX ();
use Test::More;
use MR::Tarantool::Box;

# A connection that answers errors instead of dying of them. The client wants a
# space to be described, although only procedures are called.
sub connection {
    my ($address) = @_;
    return MR::Tarantool::Box->new({
        servers => $address,
        name    => 'test',
        raise   => 0,
        timeout => 20,
        spaces  => [{
            space         => 0,
            name          => 'queue',
            format        => '&',
            default_index => 'id',
            indexes       => [{ index_name => 'id', keys => [0] }],
        }],
    });
}

my $box = connection($ENV{ADDR});

# The rows of an answer, or the text of an error.
sub call {
    my ($conn, $format, $name, @args) = @_;
    my $rows = $conn->Call("queue.$name", \@args, { unpack_format => $format });
    return $rows if $rows;
    my $error = $conn->ErrorStr;
    $error =~ s/\0\z//;
    return $error;
}

# One task, as id, tube, status and data.
sub task {
    my ($name, @args) = @_;
    my $rows = call($box, '&*', $name, @args);
    return ref $rows && @$rows == 1 ? @{ $rows->[0] } : ("no task: $rows");
}

# What a part says that runs on another connection, which ends with it. The
# client keeps one connection for each way to write an address, so this is another
# process with another way.
sub elsewhere {
    my ($part) = @_;
    my $pid = open(my $pipe, '-|') // die "fork: $!";
    if (!$pid) {
        (my $address = $ENV{ADDR}) =~ s/^127\.0\.0\.1:/localhost:/;
        print $part->(connection($address));
        close STDOUT;
        POSIX::_exit(0);
    }
    local $/ = undef;
    my $said = <$pipe>;
    close $pipe;
    return $said;
}

subtest 'put, take and acknowledge' => sub {
    my ($id, @put) = task('put', 0, 't1', 0, 60, 10, 5, 'hello', "w\0rld\xff", '');
    like $id, qr/^[0-9a-f]{32}$/, 'an id';
    is_deeply \@put, ['t1', 'ready', 'hello', "w\0rld\xff", ''], 'the fields of the task';
    is_deeply [task('take', 0, 't1', 1)], [$id, 't1', 'taken', 'hello', "w\0rld\xff", ''], 'taken';
    is_deeply call($box, '&*', 'take', 0, 't1', 0), [], 'nothing more';
    is_deeply [task('ack', 0, $id)], [$id, 't1', 'taken', 'hello', "w\0rld\xff", ''], 'acknowledged';
    is call($box, '&*', 'ack', 0, $id), 'Error 00003302: Task not found', 'only once';
};

subtest 'order' => sub {
    my ($low)    = task('put',    0, 'order', 0, 60, 60, 1,   'low');
    my ($high)   = task('put',    0, 'order', 0, 60, 60, 200, 'high');
    my ($high2)  = task('put',    0, 'order', 0, 60, 60, 200, 'high too');
    my ($urgent) = task('urgent', 0, 'order', 0, 60, 60, 1,   'urgent');
    my @got = map { (task('take', 0, 'order', 0))[0] } 1 .. 4;
    is_deeply \@got, [$urgent, $high, $high2, $low], 'urgent, then the larger number, then the older';
    is_deeply [map { (task('requeue', 0, $_))[2] } @got], [('ready') x 4], 'back behind the others';
    is_deeply [map { (task('take', 0, 'order', 0))[0] } 1 .. 4], \@got, 'in the new order';
};

subtest 'a life' => sub {
    my ($id) = task('put', 1, 'life', 0, 60, 10, 5, 'x');
    my $status = sub { my ($name, @args) = @_; return (task($name, 1, $id, @args))[2] };
    my $take = sub { is((task('take', 1, 'life', 5))[0], $id, 'take') };
    $take->();
    is $status->('touch'),   'taken', 'touch';
    is $status->('release'), 'ready', 'release';
    $take->();
    is $status->('bury'), 'buried', 'bury';
    is_deeply call($box, '&*', 'take', 1, 'life', '0.05'), [], 'a buried task is not there';
    is $status->('dig'), 'ready', 'dig';
    $take->();
    $status->('bury');
    is_deeply call($box, 'L', 'kick', 1, 'life', 10), [[1]], 'kick';
    $take->();
    is $status->('release', '0.2'), 'delayed', 'release with a delay';
    $take->();
    is_deeply [task('done', 1, $id, 'a', 'b')], [$id, 'life', 'done', 'a', 'b'], 'done';
    is_deeply [task('peek', 1, $id)], [$id, 'life', 'done', 'a', 'b'], 'peek';
    my $rows = call($box, '&&&Q&&LQQQQQQ', 'meta', 1, $id);
    my $meta = ref $rows ? $rows->[0] : [$rows];
    is scalar @$meta, 13, 'meta';
    is_deeply [@$meta[0, 1, 2, 5, 6]], [$id, 'life', 'done', '5', 0], 'its text';
    is_deeply [@$meta[8, 9, 10, 11]], [60_000_000, 10_000_000, 2, 5], 'its times and counters';
    is $meta->[3], $meta->[7] + $meta->[8], 'the end of its life';
    ok abs($meta->[12] / 1e6 - time) < 60, 'the time';
    is $status->('delete'), 'done', 'delete';
};

subtest 'delay' => sub {
    my (undef, undef, $status) = task('put', 0, 'late', '1.5', 60, 60, 0, 'x');
    is $status, 'delayed', 'delayed';
    is_deeply call($box, '&*', 'take', 0, 'late', 0), [], 'not yet';
    is((task('take', 0, 'late', 5))[3], 'x', 'then');
};

subtest 'another connection' => sub {
    my ($id) = task('put', 0, 'mine', 0, 60, 60, 0, 'x');
    task('take', 0, 'mine', 0);
    for (['ack', 'ack'], ['release', 'release'], ['bury', 'done'], ['requeue', 'release']) {
        my ($name, $word) = @$_;
        is elsewhere(sub { call($_[0], '&*', $name, 0, $id) }),
            "Error 00003302: Only consumer that took the task can it $word", "$name by a stranger";
    }
    is((task('ack', 0, $id))[2], 'taken', 'ack');

    my $taken = elsewhere(sub {
        my ($other) = @_;
        call($other, '&*', 'put', 0, 'mine', 0, 60, 60, 0, 'y');
        return call($other, '&*', 'take', 0, 'mine', 0)->[0][0];
    });
    is((task('take', 0, 'mine', 10))[0], $taken, 'given back when the other hung up');
    elsewhere(sub { call($_[0], '&*', 'put', 0, 'shared', 0, 60, 60, 0, 'z') });
    is((task('take', 0, 'shared', 10))[3], 'z', 'what another has put');
};

subtest 'statistics' => sub {
    task('put', 5, 'stat', 0, 60, 60, 0, 'x') for 1 .. 3;
    task('take', 5, 'stat', 0);
    my $rows = call($box, '&*', 'statistics', 5, 'stat');
    my %got = ref $rows ? @{ $rows->[0] } : ();
    is_deeply {
        map { $_ => $got{"space5.stat.$_"} } qw(put take tasks.total tasks.ready tasks.taken tasks.buried)
    }, { put => 3, take => 1, 'tasks.total' => 3, 'tasks.ready' => 2, 'tasks.taken' => 1, 'tasks.buried' => 0 }, 'of a tube';
};

subtest 'errors' => sub {
    is call($box, '&', 'no_such_thing'), "Error 00003202: Procedure 'queue.no_such_thing' is not defined", 'no such procedure';
    like call($box, '&*', 'put', 0, 'e', 'soon'), qr/^Error 00003302: /, 'not a number';
    is call($box, '&*', 'take', 0, 'e', -1), "Error 00003302: Timeout can't be less then 0", 'a negative timeout';
    ok !$box->Insert('x'), 'there is no database';
    is sprintf('%08X', $box->Error), '00000A02', 'and it says so';
    is_deeply call($box, '&*', 'take', 0, 'e', 0), [], 'the connection goes on';
};

done_testing;
