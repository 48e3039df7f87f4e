import java.net.InetAddress;
import java.net.InetSocketAddress;
import org.apache.hadoop.hive.conf.HiveConf;
import org.apache.hadoop.hive.metastore.HiveMetaStore;
import org.apache.hadoop.hive.metastore.IHMSHandler;
import org.apache.hadoop.hive.metastore.RetryingHMSHandler;
import org.apache.hadoop.hive.metastore.TSetIpAddressProcessor;
import org.apache.hadoop.hive.metastore.txn.TxnDbUtil;
import org.apache.thrift.server.TThreadPoolServer;
import org.apache.thrift.transport.TServerSocket;

/** Hive's metastore, from the jars that Spark brings, on a port of the loopback only: {@code HiveServer.java DIRECTORY PORT}. */
class HiveServer {
    public static void main(String[] arguments) throws Exception {
        HiveConf settings = new HiveConf();
        settings.set("javax.jdo.option.ConnectionURL", "jdbc:derby:;databaseName=" + arguments[0] + "/db;create=true");
        settings.set("hive.metastore.warehouse.dir", arguments[0] + "/warehouse");
        settings.set("hive.metastore.schema.verification", "false");
        settings.set("datanucleus.schema.autoCreateAll", "true");
        settings.set("datanucleus.connectionPoolingType", "NONE");
        TxnDbUtil.prepDb(settings); // where its locks are kept
        IHMSHandler handler =
            RetryingHMSHandler.getProxy(settings, new HiveMetaStore.HMSHandler("metastore", settings, false), false);
        InetSocketAddress address =
            new InetSocketAddress(InetAddress.getLoopbackAddress(), Integer.parseInt(arguments[1]));
        TThreadPoolServer.Args server = new TThreadPoolServer.Args(new TServerSocket(address));
        new TThreadPoolServer(server.processor(new TSetIpAddressProcessor<>(handler))).serve();
    }
}
